#include "pando/transforms/loop_gradient.hpp"

#include <algorithm>
#include <iterator>

#include "pando/base/error.hpp"
#include "pando/ir/loop_arguments.hpp"
#include "pando/transforms/callee_gradients.hpp"
#include "pando/transforms/graph_calls.hpp"

namespace pando {
namespace {

constexpr const char* kHistory = "history";

/// Has the loop keep its carried value `k` and returns the number of the output with its rows.
int keep_history(Op& loop, std::int64_t k) {
  Ints kept;
  if (loop.attributes.has(kHistory)) kept = loop.attributes.ints(kHistory);
  const auto carried = static_cast<int>(loop.called_graphs[0]->outputs().size()) - 1;
  const auto known = std::find(kept.begin(), kept.end(), k);
  const int output = carried + 1 + static_cast<int>(known - kept.begin());
  if (known != kept.end()) return output;
  const Tensor* value = loop.output(static_cast<int>(k));
  Shape shape = value->shape();
  shape.insert(shape.begin(), loop.attributes.integer("max_iterations"));
  const TensorInfo info{value->dtype(), std::move(shape), {}};
  kept.push_back(k);
  loop.attributes.set(kHistory, kept);
  loop.add_output(loop.graph().unique_tensor_id("history"), info);
  return output;
}

/// Has the loop count its iterations and returns the number of the output with the count.
int keep_count(Op& loop) {
  const auto carried = static_cast<int>(loop.called_graphs[0]->outputs().size()) - 1;
  if (loop.attributes.has(kHistory)) return carried;
  loop.attributes.set(kHistory, Ints{});
  loop.add_output(loop.graph().unique_tensor_id("count"), {DType::Int32, {}, {}});
  return carried;
}

/// Builds the loop that goes backwards. It carries the number of the iteration that it looks at,
/// the gradients of what the loop carries, and sums of the gradients of what all iterations share.
class LoopGradient {
 public:
  LoopGradient(GradientBuilder& builder, Op& loop, const GradGraphInfo& info)
      : outer_(builder),
        loop_(loop),
        info_(info),
        body_(*loop.called_graphs[0]),
        carried_(static_cast<int>(body_.outputs().size()) - 1),
        backward_(body_.ir(), body_.id() + "_bwd"),
        inner_(backward_.graph(), builder.context()) {}

  void run() {
    Tensor* count = outer_.forward(loop_.output(keep_count(loop_)));
    Tensor* last = outer_.make("Sub", {count, outer_.constant(1, DType::Int32)});
    iteration_ = add_carried(last);
    add_carried_gradients();
    add_shared_sums();
    const std::vector<Tensor*> found = call_gradient_graph();
    Tensor* next = inner_.make("Sub", {iteration_, inner_.constant(1, DType::Int32)});
    std::vector<Tensor*> results = {not_negative(inner_, next), next};
    for (std::size_t i = 0; i < targets_.size(); ++i) {
      if (is_shared(targets_[i])) {
        results.push_back(found[i] == nullptr ? values_[i]
                                              : inner_.make("Add", {values_[i], found[i]}));
      } else {
        results.push_back(found[i] == nullptr ? zeros(inner_, values_[i]->info) : found[i]);
      }
    }
    finish(std::move(results), not_negative(outer_, last));
  }

 private:
  /// Inputs of the body by their numbers: whether all iterations share it.
  bool is_shared(int input) const { return input >= kLoopControlInputs + carried_; }

  static Tensor* not_negative(OpBuilder& builder, Tensor* number) {
    return builder.make("Greater", {number, builder.constant(-1, DType::Int32)});
  }

  /// What begins as `initial` and is carried.
  Tensor* add_carried(Tensor* initial) {
    inputs_.push_back(initial);
    return backward_.add_input(*initial);
  }

  void add_carried_gradients() {
    for (int k = 0; k < carried_; ++k) {
      Tensor* output = loop_.output(k);
      if (!has_gradient_dtype(output)) continue;
      Tensor* gradient = outer_.output_gradient(k);
      if (gradient == nullptr) gradient = zeros(outer_, {output->dtype(), output->shape(), {}});
      targets_.push_back(kLoopControlInputs + k);
      values_.push_back(add_carried(gradient));
    }
  }

  void add_shared_sums() {
    for (int i = kLoopControlInputs + carried_; i < static_cast<int>(body_.inputs().size()); ++i) {
      const Tensor* input = body_.inputs()[static_cast<std::size_t>(i)];
      if (!has_gradient_dtype(input) || !outer_.wants(i)) continue;
      targets_.push_back(i);
      values_.push_back(add_carried(zeros(outer_, {input->dtype(), input->shape(), {}})));
    }
  }

  /// The gradients that an iteration gives, by target; nullptr where it gives none.
  std::vector<Tensor*> call_gradient_graph() {
    std::vector<Tensor*> found(targets_.size(), nullptr);
    if (info_.gradient_graph == nullptr) return found;
    const std::vector<std::vector<int>> outputs = outputs_of_gradients(info_);
    std::vector<Tensor*> arguments;
    for (std::size_t i = 0; i < info_.expected_inputs.size(); ++i) {
      const ExpectedConnection& wanted = info_.expected_inputs[i];
      arguments.push_back(wanted.type == ConnectionType::Fwd ? forward_value(wanted.forward_tensor)
                                                             : gradient_of_outputs(outputs[i]));
    }
    const std::vector<Tensor*> results =
        call(inner_.graph(), *info_.gradient_graph, arguments, inner_.context());
    for (std::size_t i = 0; i < results.size(); ++i) {
      const int input = index_in(body_.inputs(), info_.expected_outputs[i].forward_tensor);
      const auto target = std::find(targets_.begin(), targets_.end(), input);
      if (target != targets_.end()) {
        found[static_cast<std::size_t>(target - targets_.begin())] = results[i];
      }
    }
    return found;
  }

  /// The sum of the gradients of some outputs of the body.
  Tensor* gradient_of_outputs(const std::vector<int>& outputs) {
    std::vector<Tensor*> gradients;
    for (const int output : outputs) {
      const auto it = std::find(targets_.begin(), targets_.end(), kLoopControlInputs + output - 1);
      internal_check(output > 0 && it != targets_.end(), "a loop's condition has no gradient");
      gradients.push_back(values_[static_cast<std::size_t>(it - targets_.begin())]);
    }
    internal_check(!gradients.empty(), "the gradient of no output of a loop's body is wanted");
    return gradients.size() == 1 ? gradients.front() : inner_.make("Sum", gradients);
  }

  /// What the body got in the iteration that is looked at.
  Tensor* forward_value(Tensor* forward) {
    const int input = index_in(body_.inputs(), forward);
    internal_check(input >= 0, "the gradient of a loop's body wants more than its inputs");
    if (input == 0) return iteration_;
    if (input == 1) return inner_.constant(1, DType::Bool);
    if (is_shared(input)) return add_shared(outer_.forward(loop_.input(input)));
    const int rows = keep_history(loop_, input - kLoopControlInputs);
    Tensor* all = add_shared(outer_.forward(loop_.output(rows)));
    Tensor* row =
        inner_.make("DynamicSlice", {all, iteration_}, {{"axes", Ints{0}}, {"sizes", Ints{1}}});
    return inner_.reshape(row, forward->shape());
  }

  /// Inputs that are shared come behind those that are carried: nothing is carried from now on.
  Tensor* add_shared(Tensor* value) {
    inputs_.push_back(value);
    return backward_.add_input(*value);
  }

  void finish(std::vector<Tensor*> results, Tensor* condition) {
    backward_.graph().set_outputs(std::move(results));
    std::vector<Tensor*> operands = {nullptr, condition};
    operands.insert(operands.end(), inputs_.begin(), inputs_.end());
    const Op& op = outer_.graph().create_op(
        loop_.def(), operands, {{"max_iterations", loop_.attributes.integer("max_iterations")}},
        outer_.context(), {&backward_.graph()});
    for (std::size_t i = 0; i < targets_.size(); ++i) {
      outer_.set_input_gradient(targets_[i], op.output(static_cast<int>(i) + 1));
    }
  }

  GradientBuilder& outer_;
  Op& loop_;
  const GradGraphInfo& info_;
  Graph& body_;
  const int carried_;
  LoopBody backward_;
  OpBuilder inner_;
  std::vector<Tensor*> inputs_;  // of the backward loop
  Tensor* iteration_ = nullptr;
  /// Inputs of the body with a gradient, and what stands for it in an iteration: of a carried one
  /// the gradient of what comes out, of a shared one the sum so far.
  std::vector<int> targets_;
  std::vector<Tensor*> values_;
};

}  // namespace

bool has_gradient_dtype(const Tensor* tensor) { return is_floating_point(tensor->dtype()); }

std::vector<Tensor*> with_gradient_dtype(const std::vector<Tensor*>& tensors) {
  std::vector<Tensor*> result;
  std::copy_if(tensors.begin(), tensors.end(), std::back_inserter(result), has_gradient_dtype);
  return result;
}

void differentiate_loop(GradientBuilder& builder, Op& loop, const GradGraphInfo& body) {
  if (!loop.attributes.has("max_iterations")) {
    throw Error(str_cat(describe(loop),
                        ": a loop needs max_iterations to be differentiated: what "
                        "its iterations work on is kept in memory that is planned for them"));
  }
  if (loop.attributes.integer("max_iterations") > 0) return LoopGradient(builder, loop, body).run();
  for (int k = 0; k < loop.num_outputs(); ++k) {
    builder.set_input_gradient(kLoopControlInputs + k, builder.output_gradient(k));
  }
}

}  // namespace pando
