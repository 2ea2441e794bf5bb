// A slow, plain executor of whole programs that the compiler and the engine are checked against.
//
// It runs the ops of every graph in creation order with loops over single elements, in numbers wide
// enough for every dtype, and rounds each result to its dtype. Out-of-place ops always copy;
// in-place ones write through to everything that shares the storage. It uses none of the compiler's
// passes, expansions, views, pointwise programs or kernels: an op without a rule of its own in
// tests/oracle is refused.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "pando/ir/graph.hpp"
#include "tests/oracle/rules.hpp"

namespace pando::oracle {

struct OracleOptions {
  /// False: values of floating-point dtypes stay unrounded (numeric gradients).
  bool round_floats = true;
  /// Adds to sums the error that float32 may make of them (see add_sum_error).
  bool sum_errors = false;
  /// Which replica of the program this is.
  std::int64_t replica = 0;
  /// Gives the array of this replica to a collective and gets those of all replicas, in order.
  /// Empty: there is one replica.
  std::function<std::vector<Array>(const Array&)> exchange = {};
};

/// The elements given to (or received from) one host stream during a run: the k-th transfer uses
/// element k modulo their number.
using StreamElements = std::vector<std::vector<Number>>;

class Oracle {
 public:
  /// `ir` must outlive the oracle. Variables start with their host values.
  explicit Oracle(const Ir& ir, OracleOptions options = {});
  ~Oracle();

  /// Whether it can run ops of this kind; those of others are refused.
  static bool has_rule(std::string_view kind);

  /// By handle id. Set before `run`; output streams need as many elements as the caller wants kept.
  std::map<std::string, StreamElements> streams;

  /// Runs the main graph `times` times; the transfers of a stream go on from one time to the next.
  /// Variables and remote buffers keep their values, also between calls.
  void run(int times = 1);

  /// Current value of a variable.
  std::vector<Number> variable(const Tensor& tensor) const;

 private:
  /// A tensor: its elements by position in a storage that others may share.
  struct Value {
    std::shared_ptr<std::vector<Number>> storage;
    DType dtype = DType::Float32;
    Shape shape;
    std::vector<std::int64_t> positions;
  };
  using Frame = std::unordered_map<const Tensor*, Value>;
  using Runner = void (Oracle::*)(const Op&, Frame&);

  static Value fresh(Array array);
  static Array contents(const Value& value);
  static void overwrite(const Value& target, const std::vector<Number>& numbers);

  std::vector<Value> run_graph(const Graph& graph, std::vector<Value>& arguments);
  void run_op(const Op& op, Frame& frame);
  Value lookup(const Tensor* tensor, Frame& frame) const;
  /// Runs the kinds that see more than arrays; nullptr where nothing happens.
  static const std::map<std::string, Runner, std::less<>>& runners();
  void run_rearrangement(const Op& op, const Rearrangement& rearrange, Frame& frame);
  void run_rule(const Op& op, const Rule& rule, Frame& frame);
  void run_call(const Op& op, Frame& frame);
  void run_loop(const Op& op, Frame& frame);
  void run_if(const Op& op, Frame& frame);
  void run_host_transfer(const Op& op, Frame& frame);
  void run_host_call(const Op& op, Frame& frame);
  void run_remote_transfer(const Op& op, Frame& frame);
  void run_collective(const Op& op, Frame& frame);
  void round(Array& array) const;
  void bind_output(const Op& op, int index, Array result, Frame& frame) const;

  const Ir& ir_;
  OracleOptions options_;
  std::unordered_map<const Tensor*, Value> variables_;
  std::map<std::int64_t, std::vector<std::vector<Number>>> remote_buffers_;
  std::map<std::string, std::size_t> cursors_;
};

}  // namespace pando::oracle
