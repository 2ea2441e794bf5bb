// Parts of matrices for machine code that needs nothing but addresses.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "pando/backends/cpu/fused/compiled_chain.hpp"
#include "pando/backends/cpu/fused/fused_kernel.hpp"
#include "pando/backends/cpu/fused/fused_layout.hpp"

namespace pando::cpu {

/// What a part costs beside its elements counts where a product has few rows. So all that a part
/// needs to know is in one place.
class DirectParts {
 public:
  /// Nothing where an operand is not reached by one distance from row to row and one from column to
  /// column, or where a run has to prepare values or to look at some.
  static std::optional<DirectParts> make(const FusedPlan& plan, const FusedLayout& layout,
                                         std::shared_ptr<const CompiledChain> code);

  /// Whether the machine code can do a part with so many columns.
  static bool takes(std::int64_t columns) { return columns % kChainRowLanes == 0; }
  void run(std::byte* const* operands, const MatrixPart& part) const;

 private:
  static constexpr std::size_t kMostOperands = 13;

  std::shared_ptr<const CompiledChain> code_;
  std::size_t num_operands_ = 0;
  // By operand: bytes from row to row, and of an element.
  std::array<std::int64_t, kMostOperands> row_steps_ = {};
  std::array<std::uint8_t, kMostOperands> bytes_ = {};
};

}  // namespace pando::cpu
