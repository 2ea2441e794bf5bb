#include "pando/compile/function_lowering.hpp"

#include <limits>

#include "pando/compile/lower_ops.hpp"

namespace pando {
namespace {

constexpr int kForever = std::numeric_limits<int>::max();

class FunctionLowering {
 public:
  FunctionLowering(const FunctionRequest& request, const Placements& placements,
                   const MainPart* part, ProgramTables& tables, CalledFunctions& functions)
      : request_(request),
        graph_(*request.graph),
        placements_(placements),
        part_(part),
        functions_(functions),
        frame_(tables, placements, part == nullptr ? no_roots_ : part->shared_roots,
               empty_function()) {}

  StepFunction run() {
    const ExecutionSteps steps = form_steps(
        graph_, placements_, frame_.tables().target().most_fused_ops(), functions_.effects());
    find_last_steps(steps);
    frame_.reserve(steps.size(), graph_.tensors().size());
    bind_inputs();
    bind_outputs();
    for (std::size_t i = 0; i < steps.size(); ++i) {
      if (part_ && steps[i].ops.front()->context.execution != part_->execution) continue;
      lower_step(steps[i], static_cast<int>(i));
    }
    copy_outputs();
    return frame_.finish();
  }

 private:
  StepFunction empty_function() const {
    StepFunction function;
    function.name = graph_.id();
    function.num_inputs = static_cast<std::int32_t>(graph_.inputs().size());
    function.num_arguments =
        function.num_inputs + static_cast<std::int32_t>(graph_.outputs().size());
    function.num_carried = request_.carried;
    return function;
  }

  void find_last_steps(const ExecutionSteps& steps) {
    for (std::size_t i = 0; i < steps.size(); ++i) {
      for (const Op* op : steps[i].ops) {
        for (const Tensor* input : op->inputs()) {
          if (input != nullptr) last_step_[placements_.of(input).root] = static_cast<int>(i);
        }
      }
    }
    for (const Tensor* output : graph_.outputs()) {
      last_step_[placements_.of(output).root] = kForever;
    }
    if (part_ == nullptr) return;
    for (const Tensor* root : part_->shared_roots) last_step_[root] = kForever;
  }

  void bind_inputs() {
    if (graph_.inputs().empty()) return;
    const std::vector<bool>& written = functions_.written_inputs(graph_);
    for (std::size_t i = 0; i < graph_.inputs().size(); ++i) {
      const Tensor* input = graph_.inputs()[i];
      const std::int32_t argument = frame_.new_argument(i, input);
      frame_.set_storage(input, argument);
      frame_.storage(argument).is_writable = request_.writable[i];
      if (!written[i] || request_.writable[i]) continue;
      // Passed by value and written here: work on a copy.
      const std::int32_t local =
          frame_.new_storage(frame_.storage(argument).bytes, input->name(), nullptr);
      const OperandDesc desc = OperandDesc::contiguous(input->dtype(), input->shape());
      frame_.emit_copy({{argument}, desc}, {{local}, desc}, nullptr);
      frame_.set_storage(input, local);
    }
  }

  void bind_outputs() {
    std::unordered_set<const Tensor*> bound;
    for (std::size_t i = 0; i < graph_.outputs().size(); ++i) {
      const Tensor* output = graph_.outputs()[i];
      const Placement& placement = placements_.of(output);
      if (placement.root->producer() == nullptr || !placement.covers_root(*output)) continue;
      if (!bound.insert(placement.root).second) continue;
      frame_.set_storage(placement.root, frame_.new_argument(graph_.inputs().size() + i, output));
    }
  }

  void copy_outputs() {
    for (std::size_t i = 0; i < graph_.outputs().size(); ++i) {
      const Tensor* output = graph_.outputs()[i];
      const std::size_t slot = graph_.inputs().size() + i;
      const Storage& current = frame_.storage(frame_.storage_of(placements_.of(output).root));
      const bool is_there = current.kind == Storage::Kind::Argument &&
                            current.slot == static_cast<std::int32_t>(slot);
      if (is_there) continue;
      const std::int32_t target = frame_.new_argument(slot, output);
      frame_.emit_copy(frame_.bind(output),
                       {{target}, OperandDesc::contiguous(output->dtype(), output->shape())},
                       nullptr);
    }
  }

  void lower_step(const ExecutionStep& step, int index) {
    if (step.pointwise) {
      // What dies here need not be in memory, even if it was made elsewhere.
      return lower_fused(step, frame_, [&](const Tensor* root) {
        return root->producer() == nullptr || last_step_.at(root) > index;
      });
    }
    const Op& op = *step.ops.front();
    if (!op.called_graphs.empty()) return lower_call(op, frame_, functions_);
    if (lower_transfer(op, frame_) || lower_collective(op, frame_)) return;
    if (op.kind() == OpKind::Init) {
      // Undefined contents: only the storage. (Zeros are a Fill by now.)
      const std::int32_t storage = frame_.storage_of(placements_.of(op.output(0)).root);
      frame_.storage(storage).starts_undefined = true;
      return;
    }
    if (op.def().view) return lower_view_copy(op, frame_);
    lower_kernel_op(op, frame_);
  }

  const FunctionRequest& request_;
  const Graph& graph_;
  const Placements& placements_;
  const MainPart* part_;
  CalledFunctions& functions_;
  const std::unordered_set<const Tensor*> no_roots_;
  FrameBuilder frame_;
  TensorMap<int> last_step_{-1};
};

}  // namespace

StepFunction lower_function(const FunctionRequest& request, const Placements& placements,
                            const MainPart* part, ProgramTables& tables,
                            CalledFunctions& functions) {
  return FunctionLowering(request, placements, part, tables, functions).run();
}

}  // namespace pando
