#include "pando/backends/cpu/kernels/row_order.hpp"

#include <utility>

#include "pando/backends/cpu/kernel_table.hpp"

namespace pando::cpu {
namespace {

std::size_t starts_bytes(const RowTargets& targets) {
  return scratch_aligned(static_cast<std::size_t>(targets.size + 1) * sizeof(std::int64_t));
}

std::size_t order_bytes(const RowTargets& targets) {
  return starts_bytes(targets) +
         scratch_aligned(static_cast<std::size_t>(targets.count) * sizeof(std::int64_t));
}

/// Shorter rows are elements.
constexpr std::int64_t kFewestColumns = 4;

}  // namespace

std::optional<RowTargets> row_targets(const OperandDesc& indices, const Shape& results,
                                      std::size_t axis, int threads) {
  if (indices.shape.size() != results.size() || axis >= results.size()) return std::nullopt;
  RowTargets targets;
  for (std::size_t d = 0; d < results.size(); ++d) {
    if (d != axis && indices.shape[d] != results[d]) return std::nullopt;
    if (d < axis) {
      targets.blocks.shape.push_back(results[d]);
      targets.blocks.strides.push_back(indices.strides[d]);
    } else if (d > axis) {
      if (results[d] > 1 && indices.strides[d] != 0) return std::nullopt;
      targets.columns *= results[d];
    }
  }
  if (!targets.is_worth_it()) return std::nullopt;
  targets.count = indices.shape[axis];
  targets.size = results[axis];
  targets.step = indices.strides[axis];
  targets.index_dtype = indices.dtype;
  targets.threads = threads;
  return targets;
}

bool RowTargets::is_one_order() const {
  for (std::size_t d = 0; d < blocks.shape.size(); ++d) {
    if (blocks.shape[d] > 1 && blocks.strides[d] != 0) return false;
  }
  return true;
}

bool RowTargets::is_worth_it() const { return columns >= kFewestColumns; }

std::size_t RowTargets::scratch_bytes() const {
  return order_bytes(*this) * (is_one_order() ? 1 : static_cast<std::size_t>(threads));
}

RowOrder::RowOrder(const RowTargets& targets, std::byte* scratch)
    : starts(reinterpret_cast<std::int64_t*>(scratch)),
      positions(reinterpret_cast<std::int64_t*>(scratch + starts_bytes(targets))) {}

void RowOrder::sort(const RowTargets& targets, const IndexReader& indices, std::int64_t block) {
  const std::int64_t first = strided_offset(targets.blocks, block);
  const auto for_rows = [&](const auto& body) {
    for (std::int64_t i = 0; i < targets.count; ++i) {
      const std::int64_t at = indices[first + i * targets.step];
      if (at >= 0 && at < targets.size) body(i, at);
    }
  };
  std::fill(starts, starts + targets.size + 1, 0);
  for_rows([&](std::int64_t, std::int64_t at) { ++starts[at]; });
  longest = 0;
  std::int64_t end = 0;
  for (std::int64_t at = 0; at < targets.size; ++at) {
    longest = std::max(longest, starts[at]);
    end += std::exchange(starts[at], end);
  }
  starts[targets.size] = end;
  // Each start moves to the end of its rows, which is the start of the next ones.
  for_rows([&](std::int64_t i, std::int64_t at) { positions[starts[at]++] = i; });
  std::copy_backward(starts, starts + targets.size, starts + targets.size + 1);
  starts[0] = 0;
}

bool RowParts::is_uneven() const {
  return targets_.threads > 1 && 2 * order_.longest * targets_.threads > work();
}

std::int64_t RowParts::result_at(std::int64_t work) const {
  // Result t begins at starts[t] + t.
  std::int64_t low = 0, high = targets_.size;
  while (low < high) {
    const std::int64_t middle = low + (high - low) / 2;
    if (order_.starts[middle] + middle < work) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

}  // namespace pando::cpu
