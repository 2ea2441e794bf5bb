// Random programs for differential tests.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "pando/ir/graph.hpp"
#include "pando/ir/op_def.hpp"

namespace pando::fuzz {

using Random = std::mt19937_64;

/// Kinds of ops that a run can leave out, each with its name in PANDO_FUZZ_FAMILIES.
enum class Family : std::uint8_t {
  Copies,           // copies: of everything, before writes in place to either
  Outputs,          // outputs: graphs that return one tensor twice, or an input
  Wide,             // wide: ops, calls and loops with more than 128 operands
  Integers,         // integers: of every width, with overflow, and bools
  Casts,            // casts: of floats that the integer does not hold
  Halves,           // halves: float16 sums and means of many elements
  Gradients,        // gradients: graphs and what autodiff makes of them
  GradientOutputs,  // gradient_outputs: such graphs that return as those of Outputs do
  Whiles,           // whiles: loops that end when the program computes that they do
  Images,           // images: chains of convolutions, pools and pointwise ops
};
/// Those that PANDO_FUZZ_FAMILIES names, separated by commas (none: ""); without it all.
bool is_on(Family family);

/// What is known about the values in a storage. `exact` ones are whole numbers that every step
/// computes without rounding, so comparisons, casts and sorts of them have one right answer.
struct ValueClass {
  bool exact = false;
  double bound = 0.0;  // of |x|
};

/// A tensor of the graph that is being built.
struct Candidate {
  Tensor* tensor;
  int storage;
  /// In C order without gaps within its storage, by the semantics of the program.
  bool contiguous = true;
};

inline bool is_float(const Candidate& c) { return is_floating_point(c.tensor->dtype()); }

/// Input or output of a subgraph.
struct Slot {
  DType dtype;
  Shape shape;
  bool exact;
  bool by_ref = false;
  bool operator==(const Slot&) const = default;
};

/// Calls, loops and gradients nest no deeper.
inline constexpr int kMaxDepth = 3;

/// Where a graph is used.
struct Site {
  int depth = 0;
  /// Pipeline stage; 0 in programs without.
  int stage = 0;
  /// Whether all replicas run it together: only then it may exchange something.
  bool together = true;
};

struct Body {
  Graph* graph = nullptr;
  std::vector<Slot> inputs;
  std::vector<Slot> outputs;
  Site site;
  bool exchanges = false;
};

/// What is known about a stream or remote buffer.
struct Transfers {
  bool exact = false;  // the elements are whole numbers
  int stage = 0;       // the one that uses it
};

/// A whole program with the facts that its driver needs.
struct FuzzProgram {
  std::uint64_t seed = 0;
  std::unique_ptr<Ir> ir;
  std::vector<Tensor*> variables;
  std::map<std::string, Transfers> input_streams;  // by handle id
  std::map<std::int64_t, Transfers> buffers;       // remote ones, by id
  /// Graphs that are called.
  std::vector<Body> bodies;
  /// Those that were differentiated, and their gradients, which are called once.
  std::vector<Body> differentiated;
  /// Pipelines only: the ops of the main graph with their stages, and for how many micro-batches
  /// they run.
  std::vector<std::pair<Op*, std::int64_t>> stages;
  std::int64_t steps = 1;
  /// Ops of the family Wide, of which one is enough.
  int wide_ops = 0;
};

/// Values that enter a graph lie in [-kEntryBound, kEntryBound].
inline constexpr double kEntryBound = 4.0;

/// The program of a seed. With `keep_calls` no call can be inlined: every body is large and has a
/// second call site (in a graph that never runs); the results are the same.
FuzzProgram random_program(std::uint64_t seed, bool keep_calls);

/// A program for `pipeline`: its main graph is what one micro-batch runs through. Stages are on
/// virtual devices in turn.
FuzzProgram random_pipeline(std::uint64_t seed);
inline constexpr int kPipelineDevices = 2;

/// `count` random elements in the entry bound; whole numbers if `exact`.
void fill_random(Random& random, DType dtype, bool exact, std::int64_t count, std::byte* data);
/// `count` random elements in [lowest, highest].
void fill_reals(Random& random, DType dtype, double lowest, double highest, std::int64_t count,
                std::byte* data);

/// Builds the ops of one graph.
class GraphGenerator {
 public:
  GraphGenerator(FuzzProgram& program, Random& random, Graph& graph, const Site& site);

  void add_inputs(const std::vector<Slot>& slots);
  void add_variables(int count);
  void add_random_ops(int count);
  /// Brings every by-reference input and variable back into the entry bound, so that loops and
  /// later runs start as the first did.
  void settle();
  void set_outputs(const std::vector<Slot>& slots);
  void store_everything();
  /// From here on, ops are of the next pipeline stage: it neither writes what earlier ones made
  /// nor sees their variables.
  void begin_next_stage();
  bool exchanges() const { return exchanges_; }

 private:
  // generator.cpp
  bool flip(double probability = 0.5);
  int pick(int count);
  template <class T>
  const T& choose(const std::vector<T>& values) {
    return values[static_cast<std::size_t>(pick(static_cast<int>(values.size())))];
  }
  Shape random_shape(int max_rank = 3);
  Slot random_slot();
  /// float32 more often than not, else half precision.
  DType random_float_dtype();
  Op& op(const std::string& kind, const std::vector<Tensor*>& inputs, Attributes attributes = {},
         std::vector<Graph*> called = {});
  const ValueClass& class_of(const Candidate& c) const {
    return storages_[static_cast<std::size_t>(c.storage)];
  }
  Candidate add(Tensor* tensor, ValueClass values);
  Candidate add_alias(Tensor* tensor, const Candidate& of, bool contiguous);
  std::vector<Candidate> where(const std::function<bool(const Candidate&)>& condition) const;
  /// A result whose values may leave what the dtype holds exactly is no longer exact; one whose
  /// values may grow large is clipped.
  Candidate bounded(Tensor* tensor, ValueClass values);
  Candidate clipped(const Candidate& c, double bound);
  Candidate any_float();
  Candidate load(DType dtype, const Shape& shape, bool exact);
  Tensor* constant(DType dtype, const Shape& shape, bool exact);
  Candidate of_slot(const Slot& slot, bool must_be_writable);
  Candidate coerced(const Slot& slot);
  void store(const Candidate& c);
  void drop_large();
  bool is_read_only(const Candidate& c) const;

  // generator_ops.cpp
  void random_op();
  void unary_op();
  void binary_op();
  void compare_op();
  void where_op();
  void view_op();
  void in_place_view_op();
  void reduce_op();
  void matmul_op();
  void join_op();
  void cast_op();
  void index_op();
  Tensor* random_indices(std::int64_t size);
  void arg_extreme_op(const Candidate& x);
  void top_k_op(const Candidate& x);
  void scatter_op(const Candidate& x);
  void normalise_op();
  void random_number_op();

  // generator_dtypes.cpp
  Candidate any_integer();
  Candidate wrapped(Tensor* tensor);
  void integer_op();
  void integer_unary_op(const Candidate& x);
  void integer_reduce_op(const Candidate& x);
  void bool_op();
  void wide_dtype_op();
  void far_cast_op();
  void half_reduce_op();

  // generator_wide.cpp
  std::vector<Candidate> many_parts();
  void wide_op();

  // generator_gradients.cpp
  void add_differentiable_ops(int count);
  void differentiable_op();
  void differentiable_unary_op(const Candidate& x);
  void differentiable_binary_op(const Candidate& x);
  std::vector<Tensor*> chosen_results(int count);
  void gradient_op();

  // generator_transfers.cpp
  void transfer_op();
  void remote_op();
  void host_call_op();
  const RemoteBuffer& remote_buffer_like(const Candidate& c);

  // generator_attention.cpp
  void attention_op();
  void declared_attention_op();
  Tensor* masked(Tensor* scores);

  // generator_windows.cpp
  Candidate window_data();
  Tensor* with_channels_last(const Candidate& x);
  void conv_op();
  void pool_op();
  void adaptive_pool_op();

  // generator_images.cpp
  void image_chain_op();
  Candidate chained_conv(const Candidate& x);
  Candidate chained_addition(const Candidate& x, const std::vector<Candidate>& made);
  Candidate chained_pool(const Candidate& x);

  // generator_sequences.cpp
  void order_op();
  void pad_op();
  void fold_op();
  void recurrent_op();
  void linear_algebra_op();
  void grouped_matmul_op();

  // generator_exchange.cpp
  void exchange_op();

  // generator_optimizer.cpp
  void optimizer_op();
  Candidate hidden_state(DType dtype, const Shape& shape, double lowest, double highest);
  std::pair<Candidate, Tensor*> random_rows(DType dtype, const Shape& shape, int axis, bool exact);
  void sparse_update(const Candidate& target);
  void gathered_update(const Candidate& target);
  void sparse_adam_op();

  // generator_updates.cpp
  void in_place_op();
  void write_in_place(const Candidate& target);
  void copy_of_everything_op();
  void update_ints(const Candidate& target);
  void update_floats(const Candidate& target);
  void copied_result(const Candidate& target);
  void dynamic_update(const Candidate& target);
  void write(const Candidate& target, Tensor* result, double bound);
  std::vector<Candidate> operands_for(const Candidate& target, bool same_shape) const;

  // generator_control.cpp
  void control_op();
  /// `together`: whether all replicas run the body if they run this graph.
  Body new_body(const std::vector<Slot>& inputs, const std::vector<Slot>& outputs, bool together);
  std::vector<Tensor*> arguments_of(const Body& body, std::vector<Candidate>& chosen);
  void finish_call(const Op& call, const Body& body, const std::vector<Candidate>& arguments);
  void call_op();
  void call(const Body& body, const std::vector<Tensor*>& tensors,
            const std::vector<Candidate>& arguments);
  void repeat_op();
  /// `arguments`: of the body; chosen from the pool where there are none.
  void loop(const std::vector<Slot>& inputs, const std::vector<Slot>& carried,
            std::vector<Candidate> arguments, bool is_while = false);
  void repeat_some(std::vector<Slot>& slots);
  Tensor* output_of_slot(const Slot& slot, const std::vector<Tensor*>& others);
  void if_op();

  FuzzProgram& program_;
  Random& random_;
  Graph& graph_;
  Site site_;
  bool exchanges_ = false;  // an op here or in a graph that is called from here does
  OpBuilder builder_;
  std::vector<ValueClass> storages_;
  std::vector<Candidate> pool_;
  std::vector<Candidate> settled_;  // by-reference inputs and variables
  std::vector<int> read_only_;      // storages of constants and of other stages
  std::vector<int> hidden_;         // storages of state that only one update writes
  Op* last_ = nullptr;
};

}  // namespace pando::fuzz
