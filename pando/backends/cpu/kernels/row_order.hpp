// Rows that go where indices say, grouped by where that is.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "pando/backends/cpu/kernels/float_rows.hpp"
#include "pando/backends/cpu/kernels/index.hpp"
#include "pando/backends/cpu/kernels/reduce_plan.hpp"

namespace pando::cpu {

/// Blocks of `count` rows of `columns` elements, each of which goes to one of `size` results of its
/// block. Indices out of range go nowhere.
struct RowTargets {
  std::int64_t count = 0, size = 0, columns = 1;
  StridedDims blocks;     // the strides are those of the indices
  std::int64_t step = 1;  // from an index to the next one of its block
  DType index_dtype = DType::Int32;
  int threads = 1;

  std::int64_t num_blocks() const { return num_elements(blocks.shape); }
  /// Whether all blocks have the same indices.
  bool is_one_order() const;
  /// Whether rows are long enough to be sorted.
  bool is_worth_it() const;
  std::size_t scratch_bytes() const;
};

/// What `indices` say that stand for elements, where those of a row are all the same: along `axis`
/// of a tensor of shape `results`, whose other dimensions are those of the indices. Nothing where
/// elements of a row differ, or rows are too short to be worth it.
std::optional<RowTargets> row_targets(const OperandDesc& indices, const Shape& results,
                                      std::size_t axis, int threads);

/// The rows of result t are positions[starts[t]] up to positions[starts[t + 1]], rising.
struct RowOrder {
  std::int64_t* starts = nullptr;     // size + 1
  std::int64_t* positions = nullptr;  // count
  std::int64_t longest = 0;           // most rows of one result

  RowOrder(const RowTargets& targets, std::byte* scratch);
  /// Reads the indices of a block.
  void sort(const RowTargets& targets, const IndexReader& indices, std::int64_t block);
};

/// Columns [begin, end) of results [first, last) of a block. No two threads have one `slot`.
struct RowPiece {
  std::int64_t block = 0, first = 0, last = 0, begin = 0, end = 0, slot = 0;
};

/// The parts of the results of several blocks with one order, as equal as whole results allow.
class RowParts {
 public:
  RowParts(const RowTargets& targets, const RowOrder& order)
      : targets_(targets), order_(order), block_work_(order.starts[targets.size] + targets.size) {}

  std::int64_t work() const { return targets_.num_blocks() * block_work_; }
  /// Whether one result is so much of the work that threads share columns instead.
  bool is_uneven() const;
  /// Calls body(piece) for the results that begin in [begin, end) of work().
  template <class Body>
  void for_pieces(std::int64_t begin, std::int64_t end, std::int64_t slot, const Body& body) const {
    while (begin < end) {
      const std::int64_t block = begin / block_work_, start = block * block_work_;
      const std::int64_t stop = std::min(end, start + block_work_);
      body(RowPiece{block, result_at(begin - start), result_at(stop - start), 0, targets_.columns,
                    slot});
      begin = stop;
    }
  }

 private:
  /// The first result of a block that begins at or behind `work`.
  std::int64_t result_at(std::int64_t work) const;

  const RowTargets& targets_;
  const RowOrder& order_;
  std::int64_t block_work_;
};

/// Calls body(order, piece) for pieces that make up all results, on several threads. `scratch`:
/// RowTargets::scratch_bytes.
template <class Body>
void for_row_pieces(const RowTargets& targets, const std::byte* index_data, std::byte* scratch,
                    const Body& body) {
  const IndexReader indices(index_data, targets.index_dtype);
  const std::int64_t columns = targets.columns, blocks = targets.num_blocks();
  if (!targets.is_one_order()) {
    const std::int64_t grain = row_grain((targets.count + targets.size) * columns);
    parallel_slots(targets.threads, blocks, grain,
                   [&](std::int64_t slot, std::int64_t begin, std::int64_t end) {
                     RowOrder order(targets,
                                    scratch + static_cast<std::size_t>(slot) *
                                                  targets.scratch_bytes() /
                                                  static_cast<std::size_t>(targets.threads));
                     for (std::int64_t block = begin; block < end; ++block) {
                       order.sort(targets, indices, block);
                       body(order, RowPiece{block, 0, targets.size, 0, columns, slot});
                     }
                   });
    return;
  }
  RowOrder order(targets, scratch);
  order.sort(targets, indices, 0);
  const RowParts parts(targets, order);
  if (!parts.is_uneven()) {
    parallel_slots(targets.threads, parts.work(), row_grain(columns),
                   [&](std::int64_t slot, std::int64_t begin, std::int64_t end) {
                     parts.for_pieces(begin, end, slot,
                                      [&](const RowPiece& piece) { body(order, piece); });
                   });
    return;
  }
  // Lines of the cache belong to one thread where rows begin on lines.
  constexpr std::int64_t kLine = 16;
  parallel_slots(targets.threads, (columns + kLine - 1) / kLine, 1,
                 [&](std::int64_t slot, std::int64_t begin, std::int64_t end) {
                   for (std::int64_t block = 0; block < blocks; ++block) {
                     body(order, RowPiece{block, 0, targets.size, begin * kLine,
                                          std::min(columns, end * kLine), slot});
                   }
                 });
}

}  // namespace pando::cpu
