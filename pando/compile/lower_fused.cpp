// Pointwise ops that run as one kernel.
#include <algorithm>

#include "pando/base/error.hpp"
#include "pando/compile/lower_ops.hpp"

namespace pando {
namespace {

/// Accumulates one fused kernel from the ops of a step.
class FusedKernelBuilder {
 public:
  explicit FusedKernelBuilder(const Placements& placements)
      : placements_(placements), emitter_(spec_.scalar) {
    spec_.kind = "Fused";
  }

  void add(const Op& op) {
    std::vector<ScalarValue> inputs;
    const Shape& shape = op.output(0)->shape();
    for (const Tensor* input : op.inputs()) {
      inputs.push_back(input == nullptr ? kNoValue : value_of(input, shape));
    }
    const std::vector<ScalarValue> outputs = op.def().scalar_body(emitter_, op, inputs);
    internal_check(outputs.size() == op.outputs().size(), "a body must give every output");
    for (int i = 0; i < op.num_outputs(); ++i) {
      const Tensor* root = placements_.of(op.output(i)).root;
      const ScalarValue value =
          emitter_.as_dtype(outputs[static_cast<std::size_t>(i)], op.output(i)->dtype());
      if (!values_.contains(root)) written_.push_back(op.output(i));
      values_[root] = value;
    }
  }

  /// `stored`: written tensors whose memory must hold the result.
  void finish(const std::vector<const Tensor*>& stored) {
    for (const Tensor* tensor : stored) {
      const View& view = *placements_.of(tensor).view;
      spec_.outputs.push_back({tensor->dtype(), view.shape, view.strides});
      emitter_.store(static_cast<int>(spec_.outputs.size()) - 1,
                     values_.at(placements_.of(tensor).root), tensor->dtype());
    }
    drop_what_no_result_needs();
  }

  const std::vector<const Tensor*>& written() const { return written_; }
  /// By input of the kernel.
  const std::vector<const Tensor*>& loaded() const { return loaded_; }
  const KernelSpec& spec() const { return spec_; }

 private:
  /// The old value of a variable that is overwritten is not loaded.
  void drop_what_no_result_needs() {
    std::vector<ScalarInstruction>& all = spec_.scalar.instructions;
    std::vector<bool> is_needed(all.size());
    for (std::size_t i = all.size(); i-- > 0;) {
      if (all[i].op == ScalarOp::Store) is_needed[i] = true;
      for (const ScalarValue value : {all[i].a, all[i].b, all[i].c}) {
        if (is_needed[i] && value != kNoValue) is_needed[static_cast<std::size_t>(value)] = true;
      }
    }
    if (std::find(is_needed.begin(), is_needed.end(), false) == is_needed.end()) return;
    std::vector<ScalarValue> place(all.size(), kNoValue);
    std::vector<ScalarInstruction> kept;
    std::vector<std::int32_t> input_place(loaded_.size(), -1);
    std::vector<const Tensor*> loaded;
    std::vector<OperandDesc> inputs;
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (!is_needed[i]) continue;
      place[i] = static_cast<ScalarValue>(kept.size());
      ScalarInstruction& in = kept.emplace_back(all[i]);
      for (ScalarValue* value : {&in.a, &in.b, &in.c}) {
        if (*value != kNoValue) *value = place[static_cast<std::size_t>(*value)];
      }
      if (in.op != ScalarOp::Load) continue;
      const auto old = static_cast<std::size_t>(in.index);
      if (input_place[old] < 0) {
        input_place[old] = static_cast<std::int32_t>(loaded.size());
        loaded.push_back(loaded_[old]);
        inputs.push_back(spec_.inputs[old]);
      }
      in.index = input_place[old];
    }
    all = std::move(kept);
    loaded_ = std::move(loaded);
    spec_.inputs = std::move(inputs);
  }

  ScalarValue value_of(const Tensor* tensor, const Shape& shape) {
    const Placement& placement = placements_.of(tensor);
    const auto it = values_.find(placement.root);
    if (it != values_.end()) return it->second;
    const View view = broadcast_view(*placement.view, shape);
    for (std::size_t i = 0; i < loaded_.size(); ++i) {
      const Placement& other = placements_.of(loaded_[i]);
      if (other.root == placement.root && broadcast_view(*other.view, shape) == view) {
        return emitter_.load(static_cast<int>(i), tensor->dtype());
      }
    }
    loaded_.push_back(tensor);
    spec_.inputs.push_back({tensor->dtype(), view.shape, view.strides});
    return emitter_.load(static_cast<int>(loaded_.size()) - 1, tensor->dtype());
  }

  const Placements& placements_;
  KernelSpec spec_;
  ScalarEmitter emitter_;
  std::unordered_map<const Tensor*, ScalarValue> values_;  // by root, once written
  std::vector<const Tensor*> written_;                     // first writer of each root
  std::vector<const Tensor*> loaded_;
};

/// A step that the cache does not know.
FusedStep new_fused_step(const ExecutionStep& step, FrameBuilder& frame,
                         const FusedStepCache::IsStored& is_stored) {
  ProgramTables& tables = frame.tables();
  const Placements& placements = frame.placements();
  FusedKernelBuilder builder(placements);
  for (const Op* op : step.ops) builder.add(*op);
  FusedStep fused;
  for (const Tensor* tensor : builder.written()) {
    if (is_stored(placements.of(tensor).root)) fused.stored.push_back(tensor);
  }
  if (fused.stored.empty()) return fused;
  builder.finish(fused.stored);
  fused.loaded = builder.loaded();
  fused.kernel = tables.kernel(builder.spec());
  tables.fused_steps().add(step, fused);
  return fused;
}

void emit_fused(const ExecutionStep& step, const FusedStep& fused, FrameBuilder& frame) {
  if (fused.stored.empty()) return;
  StepInstruction instruction;
  instruction.kind = Instruction::Kind::Kernel;
  instruction.target = fused.kernel;
  std::vector<StepOperand>& operands = instruction.operands;
  operands.reserve(fused.loaded.size() + fused.stored.size() + 1);  // one may be scratch memory
  for (const Tensor* input : fused.loaded) {
    operands.push_back(frame.operand_of(input).as_read_only());
  }
  for (const Tensor* output : fused.stored) operands.push_back(frame.operand_of(output));
  frame.emit(std::move(instruction), step.ops.back());
}

}  // namespace

void lower_fused(const ExecutionStep& step, FrameBuilder& frame,
                 const FusedStepCache::IsStored& is_stored) {
  FusedStepCache& cache = frame.tables().fused_steps();
  if (const FusedStep* known = cache.find(step, frame.placements(), is_stored)) {
    emit_fused(step, *known, frame);
  } else {
    emit_fused(step, new_fused_step(step, frame, is_stored), frame);
  }
}

}  // namespace pando
