#include "pando/backends/cpu/fused/fused_images.hpp"

#include <algorithm>

namespace pando::cpu {
namespace {

constexpr std::size_t kSpatialBegin = 2;

bool is_per_sample_or_channel(const OperandDesc& operand) {
  for (std::size_t d = kSpatialBegin; d < operand.shape.size(); ++d) {
    if (operand.shape[d] != 1 && operand.strides[d] != 0) return false;
  }
  return operand.shape[1] == 1 || operand.strides[1] == 0 || operand.strides[1] == 1;
}

}  // namespace

KernelImages images_of_fused(const KernelSpec& spec) {
  const Shape& shape = spec.outputs.front().shape;
  const auto& instructions = spec.scalar.instructions;
  const bool has_numbers =
      std::any_of(instructions.begin(), instructions.end(),
                  [](const ScalarInstruction& in) { return in.op == ScalarOp::Iota; });
  if (shape.size() <= kSpatialBegin || has_numbers || !spec.products.empty()) return {};
  KernelImages images;
  for (std::size_t i = 0; i < spec.inputs.size() + spec.outputs.size(); ++i) {
    const bool is_input = i < spec.inputs.size();
    const OperandDesc& operand = is_input ? spec.inputs[i] : spec.outputs[i - spec.inputs.size()];
    if (operand.is_contiguous()) {
      images.operands.push_back(static_cast<std::int32_t>(i));
    } else if (!is_input || !is_per_sample_or_channel(operand)) {
      return {};
    }
  }
  return images;
}

}  // namespace pando::cpu
