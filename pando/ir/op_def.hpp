// The registry: one record per op kind. Everything generic (clone, print, verify, serialise,
// gradient sweep, coverage) is written over these records.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <shared_mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "pando/base/scalar_program.hpp"
#include "pando/base/shape.hpp"
#include "pando/ir/op.hpp"

namespace pando {

class OpBuilder;
class GradientBuilder;

enum class AttributeType : std::uint8_t {
  Flag,
  Integer,
  Number,
  Text,
  DTypeName,
  IntList,
  NumberList,
  TextList
};

struct AttributeSpec {
  std::string name;
  AttributeType type;
  bool required = true;
};

struct OpDef {
  /// As printed in schedules, e.g. `AddLhsInplace`.
  std::string name;
  /// One or two sentences with the formula.
  std::string doc;

  int min_inputs = 1;
  /// -1: any number.
  int max_inputs = 1;
  std::vector<AttributeSpec> attributes = {};

  /// Shape and dtype rule. Throws Error for bad inputs (text built with `wrong_input`), but leaves
  /// what only a running op needs to `check_execution`.
  std::function<std::vector<TensorInfo>(const Op&)> infer;

  /// What running the op needs besides what building it needs: above all the dtypes that it is
  /// defined for. Throws Error. The compiler asks it of every op that takes part in the program.
  std::function<void(const Op&)> check_execution = {};

  /// Inputs that the op writes. The new value is visible through every alias of that input.
  std::function<InputSet(const Op&)> modified_inputs = {};

  /// For every output: the input whose storage it IS (in-place ops; in-place views), or -1.
  /// Not set: no output aliases an input.
  std::function<int(const Op&, int output)> output_alias = {};

  /// View ops (one input of interest: 0): the view that output `output` is of input 0, given input
  /// 0's view; nullopt when those strides do not allow it (then it is a copy). In-place view ops
  /// have `output_alias` too.
  std::function<std::optional<View>(const Op&, int output, const View& input)> view = {};

  /// Pointwise ops: the per-element body. `inputs[i]` is the loaded value of input i (kNoValue if
  /// not connected); returns one value per output. Inputs broadcast to the output's shape. All
  /// outputs have the same shape. For in-place ops the output is the new value of its alias.
  std::function<std::vector<ScalarValue>(ScalarEmitter&, const Op&, std::span<const ScalarValue>)>
      scalar_body = {};

  /// Composite ops (and gradient ops): rebuilds the op from simpler ones in the same graph and
  /// returns the replacement of each output. An empty result for an op with outputs: this one is
  /// already in its simplest form (a kernel, a view or pointwise) and stays.
  std::function<std::vector<Tensor*>(OpBuilder&, const Op&)> expand = {};

  /// Gradient rule, in terms of other ops. Absent: the gradient path stops here.
  std::function<void(GradientBuilder&, const Op&)> gradient = {};
  /// The op has outputs whose gradient must not be asked for: autodiff throws if it reaches them.
  bool gradient_is_error = false;

  /// Outputs that the kernel does not compute where nothing uses them: what only gradients read.
  std::vector<int> optional_outputs = {};

  /// Kept although no output is used; never merged with an equal op.
  bool has_side_effects = false;

  // Traits: what passes ask about an op without knowing its kind.
  int num_called_graphs = 0;
  /// Runs its one called graph once; inputs and outputs are those of the graph, in order.
  bool is_call = false;
  /// Runs its one called graph again and again: inputs 0 and 1 of both are the number of the
  /// iteration and a condition, then come the values that each iteration carries to the next one,
  /// then those that all share. Output 0 of the graph is a condition, output i + 1 is carried to
  /// input i + 2.
  bool is_loop = false;
  /// Its gradient runs the gradient graphs of the graphs that it calls.
  bool differentiates_callees = false;
  /// Input 0 is the value of the output, whose storage is only of its own where that is seen.
  bool is_elidable = false;
  /// Takes hardly longer than reading its inputs: it is run again where keeping its output 0 would
  /// cost memory.
  bool is_cheap_to_repeat = false;
  /// Takes long, and is run again all the same in a program that is too large for its memory.
  bool is_repeated_to_fit = false;
  /// Gets its output from the host stream `stream`, or the remote buffer `buffer`.
  bool is_load = false;
  /// Gives input 0 to the host stream `stream`, or the remote buffer `buffer`.
  bool is_store = false;
  /// Only the shape and the dtype of input 0 are used; the compiler disconnects it.
  bool ignores_value = false;
  /// Exchanges input 0 with other replicas.
  bool is_collective = false;
  /// Moves input 0 from the virtual device `source` to the virtual device `destination`.
  bool moves_devices = false;
  /// Input i and output i are on the virtual device `devices[i]`.
  bool has_tensor_devices = false;
  /// The input that is a log2 scale, where it is connected; -1: none.
  int log2_scale_input = -1;
  /// The kind of its kernel; empty: the name.
  std::string_view kernel = {};
  /// The file of the user's library that it comes from, and the hash of its contents; empty: it is
  /// built in.
  std::string library = {};
  std::string library_hash = {};

  /// For coverage tables and the gradient sweep: inputs with a gradient.
  std::vector<int> differentiable_inputs = {};
  /// Given by the registry.
  OpKind kind = {};
  /// Given by the registry: one of PANDO_OP_FAMILIES; empty for ops of users' libraries.
  std::string_view family = {};
};

inline OpKind Op::kind() const { return def_->kind; }
inline const std::string& Op::kind_name() const { return def_->name; }

/// Op kinds by name. Any thread, also while kinds are added.
class Registry {
 public:
  static Registry& instance();

  /// Throws InternalError when the name is taken.
  void add(OpDef def);
  /// Kinds that are added from now on are of this family, a name that lives as long as the
  /// registry.
  void begin_family(std::string_view family);
  /// nullptr when unknown.
  const OpDef* find(std::string_view name) const;
  /// Throws Error naming the op when unknown.
  const OpDef& get(std::string_view name) const;
  /// Sorted by name.
  std::vector<const OpDef*> all() const;

 private:
  const OpDef* find_locked(std::string_view name) const;

  mutable std::shared_mutex mutex_;
  std::vector<std::unique_ptr<OpDef>> defs_;  // sorted by name
  std::string_view family_;
};

/// Builds ops in one graph with one context: what gradient rules, expansions and transforms use.
class OpBuilder {
 public:
  OpBuilder(Graph& graph, OpContext context) : graph_(&graph), context_(std::move(context)) {}

  Graph& graph() const { return *graph_; }
  const OpContext& context() const { return context_; }

  /// Makes an op of `kind` and returns it; outputs are named after `name` (default: the kind).
  Op& op(std::string_view kind, const std::vector<Tensor*>& inputs, Attributes attributes = {},
         std::string_view name = {});
  /// The only output of such an op.
  Tensor* make(std::string_view kind, const std::vector<Tensor*>& inputs,
               Attributes attributes = {}, std::string_view name = {});

  /// A constant filled with `value`, scalar by default.
  Tensor* constant(double value, DType dtype, const Shape& shape = {});
  /// A constant with the given contents (`info.bytes()` bytes).
  Tensor* constant(const TensorInfo& info, const void* data);

  // Shorthands for the ops every rule needs. They return `t` itself when there is nothing to do.
  Tensor* cast(Tensor* t, DType dtype);
  Tensor* reshape(Tensor* t, const Shape& shape);
  /// Broadcast copy (a stride-0 view after compilation).
  Tensor* broadcast_to(Tensor* t, const Shape& shape);
  /// Sums `t` over the axes along which `shape` was broadcast, giving `shape`.
  Tensor* reduce_to(Tensor* t, const Shape& shape);

 private:
  Graph* graph_;
  OpContext context_;
};

/// What a gradient rule sees. Ops are built in the gradient graph.
class GradientBuilder : public OpBuilder {
 public:
  using OpBuilder::OpBuilder;
  virtual ~GradientBuilder() = default;

  /// Gradient of output `index` of the forward op; nullptr when nothing reaches it.
  virtual Tensor* output_gradient(int index) = 0;
  /// The value of a tensor of the forward graph, as a tensor of the gradient graph.
  virtual Tensor* forward(Tensor* forward_tensor) = 0;
  /// Whether the gradient of input `index` is asked for (rules may skip work when not).
  virtual bool wants(int index) const = 0;
  virtual void set_input_gradient(int index, Tensor* gradient) = 0;
};

/// Throws Error: `<describe(op)>: wanted <wanted>; given <every input with name, shape, dtype>`.
[[noreturn]] void wrong_input(const Op& op, const std::string& wanted);

}  // namespace pando
