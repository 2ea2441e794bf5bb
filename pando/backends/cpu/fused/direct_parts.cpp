#include "pando/backends/cpu/fused/direct_parts.hpp"

#include <algorithm>
#include <utility>

namespace pando::cpu {
namespace {

/// Whether the rows of the outer dimensions are as far from each other as those of the last one.
bool has_even_rows(const Shape& shape, const Strides& strides, std::size_t outer_dimensions) {
  for (std::size_t d = 0; d + 1 < outer_dimensions; ++d) {
    if (strides[d] != strides[d + 1] * shape[d + 1]) return false;
  }
  return true;
}

}  // namespace

std::optional<DirectParts> DirectParts::make(const FusedPlan& plan, const FusedLayout& layout,
                                             std::shared_ptr<const CompiledChain> code) {
  const std::size_t outer = layout.outer_dimensions();
  const bool prepares = plan.prologue.size() > 1 || !plan.generated.empty();
  if (code == nullptr || outer == 0 || prepares || !plan.divisors.empty() ||
      !plan.hazards.empty() || !layout.products.empty() || layout.num_operands > kMostOperands) {
    return std::nullopt;
  }
  DirectParts parts;
  parts.code_ = std::move(code);
  parts.num_operands_ = layout.num_operands;
  for (std::size_t i = 0; i < layout.num_operands; ++i) {
    const Strides& strides = layout.iteration.strides[i];
    const bool uniform = i < plan.num_inputs && layout.uniform[i];
    if (layout.access[i] != Access::Direct || uniform) return std::nullopt;
    if (!has_even_rows(layout.iteration.shape, strides, outer)) return std::nullopt;
    parts.row_steps_[i] = strides[outer - 1] * static_cast<std::int64_t>(layout.bytes[i]);
    parts.bytes_[i] = static_cast<std::uint8_t>(layout.bytes[i]);
  }
  return parts;
}

void DirectParts::run(std::byte* const* operands, const MatrixPart& part) const {
  std::array<const std::byte*, kMostOperands> slots;
  for (std::size_t i = 0; i < num_operands_; ++i) {
    slots[i] = operands[i] + part.row * row_steps_[i] + part.column * bytes_[i];
  }
  code_->run({slots.data(), part.columns, part.rows, row_steps_.data()});
}

}  // namespace pando::cpu
