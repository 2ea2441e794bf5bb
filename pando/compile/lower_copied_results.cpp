// Results that only a copy to a variable reads are made in the variable, without the copy.
#include <algorithm>

#include "pando/compile/function_lowering.hpp"

namespace pando {

bool FunctionLowering::touches(const ExecutionStep& step, const Tensor* root) const {
  const auto is_of_root = [&](const Tensor* tensor) {
    return tensor != nullptr && placements_.of(tensor).root == root;
  };
  const auto touches_root = [&](const Op* op) {
    return std::any_of(op->inputs().begin(), op->inputs().end(), is_of_root) ||
           std::any_of(op->outputs().begin(), op->outputs().end(), is_of_root);
  };
  return std::any_of(step.ops.begin(), step.ops.end(), touches_root) ||
         std::any_of(step.products.begin(), step.products.end(), touches_root);
}

bool FunctionLowering::writes(const ExecutionStep& step, const Tensor* root) const {
  return std::any_of(step.ops.begin(), step.ops.end(), [&](const Op* op) {
    const InputSet modified = op->modified_inputs();
    return std::any_of(modified.begin(), modified.end(), [&](int input) {
      return op->input(input) != nullptr && placements_.of(op->input(input)).root == root;
    });
  });
}

/// Whether step `copy` has nothing to do once its source lies in its target: nothing sees the
/// source after it, and nothing the target since the source was made. That was by one kernel, or a
/// run that is stopped would leave a value that the program never gave the target.
bool FunctionLowering::is_made_for_copy(const std::vector<ExecutionStep>& steps,
                                        std::size_t copy) const {
  const Op& op = *steps[copy].ops.front();
  const Tensor *target = op.input(0), *source = op.input(1);
  const Placement &to = placements_.of(target), &from = placements_.of(source);
  const bool is_same = target->shape() == source->shape() && target->dtype() == source->dtype() &&
                       to.covers_root(*target) && from.covers_root(*source);
  const bool is_only_copied = from.root->producer() != nullptr && storage_of_.at(from.root) < 0 &&
                              last_step_.at(from.root) == static_cast<int>(copy);
  if (!is_same || !is_only_copied || to.root->kind() != TensorKind::Variable) return false;
  for (std::size_t i = copy; i-- > 0;) {
    const ExecutionStep& step = steps[i];
    if (touches(step, to.root)) return false;
    if (std::find(step.ops.begin(), step.ops.end(), from.root->producer()) == step.ops.end()) {
      if (writes(step, from.root)) return false;
      continue;
    }
    const Op& maker = *step.ops.front();
    const bool is_kernel = step.pointwise || program_.target_.has_kernel(maker.kind());
    return is_kernel && maker.context.execution == op.context.execution;
  }
  return false;
}

void FunctionLowering::place_copied_results(const std::vector<ExecutionStep>& steps) {
  // Another device could read the variable meanwhile.
  if (program_.steps_.device_numbers.size() > 1) return;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const ExecutionStep& step = steps[i];
    const bool is_copy = step.ops.size() == 1 && step.products.empty() &&
                         step.ops.front()->kind() == "CopyVarUpdate";
    if (!is_copy || !is_made_for_copy(steps, i)) continue;
    const Op* copy = step.ops.front();
    storage_of_[placements_.of(copy->input(1)).root] = operand_of(copy->input(0)).storage;
    elided_copies_.insert(copy);
  }
}

}  // namespace pando
