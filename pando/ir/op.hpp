// Ops: nodes of a graph.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "pando/base/attributes.hpp"
#include "pando/base/shared_text.hpp"
#include "pando/ir/after_edges.hpp"
#include "pando/ir/input_links.hpp"
#include "pando/ir/input_set.hpp"
#include "pando/ir/op_kind.hpp"
#include "pando/ir/tensor.hpp"

namespace pando {

struct OpDef;

/// Which program an op belongs to.
enum class ExecutionContext : std::uint8_t { Normal, WeightsFromHost, WeightsToHost };

/// The line of the user's program that made an op.
struct SourceLocation {
  SharedText file;
  int line = 0;
  SharedText function;
  bool known() const { return line > 0; }
};

/// Everything recorded about where and how an op was built.
struct OpContext {
  SharedText name;  // name scopes joined by '/', then the op's own name
  SourceLocation location;
  std::optional<std::int64_t> device = 0;  // virtual device; nullopt: none
  bool io_tiles = false;
  ExecutionContext execution = ExecutionContext::Normal;
  /// Once the compiler has named those of the main program: see program/phases.hpp.
  SharedText phase = {};
  /// Not to be run before its place among the ops: the compiler computes again what was not kept.
  bool is_repeated = false;
};

/// Created and owned by a Graph; the address is stable.
class Op {
 public:
  Op(Graph& graph, const OpDef& def, std::int64_t id, std::size_t number)
      : def_(&def), graph_(&graph), id_(id), number_(number) {}
  Op(const Op&) = delete;
  Op& operator=(const Op&) = delete;

  const OpDef& def() const { return *def_; }
  /// Defined in op_def.hpp.
  OpKind kind() const;
  /// The kind as it is printed.
  const std::string& kind_name() const;
  /// Unique in the Ir; creation order.
  std::int64_t id() const { return id_; }
  /// How many ops were made in its graph before it (see OpMap).
  std::size_t number() const { return number_; }
  Graph& graph() const { return *graph_; }

  /// Inputs by index. An optional input that is not connected is nullptr.
  const std::vector<Tensor*>& inputs() const { return inputs_; }
  const std::vector<Tensor*>& outputs() const { return outputs_; }
  Tensor* input(int index) const {
    const auto i = static_cast<std::size_t>(index);
    return i < inputs_.size() ? inputs_[i] : nullptr;
  }
  Tensor* output(int index) const { return outputs_[static_cast<std::size_t>(index)]; }
  int num_inputs() const { return static_cast<int>(inputs_.size()); }
  int num_outputs() const { return static_cast<int>(outputs_.size()); }

  /// Connects (or, with nullptr, disconnects) an input, growing the list when needed.
  void set_input(int index, Tensor* tensor);
  /// Disconnects the inputs from `count` on, or adds unconnected ones, so that there are `count`.
  void resize_inputs(int count);
  /// Appends an output tensor with the given id (see Graph::unique_tensor_id).
  Tensor* add_output(std::string tensor_id, const TensorInfo& info);
  /// Makes `tensor`, an activation of the graph that no op makes, output `index`, growing the list
  /// when needed. The former output, and with nullptr any, is left without a producer. For graph
  /// surgery: gaps are nullptr and must be filled before the graph is compiled.
  void set_output(int index, Tensor* tensor);

  /// Ops of the same graph that must run earlier (in_sequence).
  const std::vector<Op*>& after() const { return after_.earlier(); }
  void run_after(Op& earlier) { AfterEdges::add(*this, earlier); }

  /// The neighbours in the order of the graph; nullptr at its ends. A walk by these may insert and
  /// erase ops on its way.
  Op* previous() const { return previous_; }
  Op* next() const { return next_; }

  /// The inputs this op writes.
  InputSet modified_inputs() const;
  bool modifies() const { return !modified_inputs().empty(); }

 private:
  friend class AfterEdges;
  friend class OpList;
  friend class OpMaker;
  void resize_input_list(std::size_t count);
  /// Appends an activation of the graph that no op makes.
  void append_output(Tensor& tensor);

  // What most walks over ops read lies together in memory.
  const OpDef* def_;
  Op* next_ = nullptr;
  std::vector<Tensor*> inputs_;
  std::vector<Tensor*> outputs_;
  Graph* graph_;

 public:
  /// Call, Loop: the callee. If: then-branch, else-branch.
  std::vector<Graph*> called_graphs;
  Attributes attributes;
  OpContext context;

 private:
  std::int64_t id_;
  std::size_t number_;
  InputLinks links_;
  AfterEdges after_;
  Op* previous_ = nullptr;
};

/// `Add 'scope/add' (Add.103) in graph 'f_subgraph(0)', made at file.py:12 (in build)`.
std::string describe(const Op& op);

}  // namespace pando
