// Sums of the rows that go to one result.
#pragma once

#include "pando/backends/cpu/kernels/row_order.hpp"

namespace pando::cpu {

/// What is summed, in a block: row i of the targets is row sources[i] of x, times factors[i].
template <class T>
struct RowTerms {
  const T* x = nullptr;
  const IndexReader* sources = nullptr;  // nullptr: row i
  std::int64_t num_sources = 0;          // rows of x; sources out of range add nothing
  const T* factors = nullptr;            // nullptr: 1
  const T* initial = nullptr;            // of each result, maybe the memory of `out`; nullptr: 0
  T* out = nullptr;

  /// -1: none.
  std::int64_t source(std::int64_t i) const {
    if (sources == nullptr) return i;
    const std::int64_t at = (*sources)[i];
    return at >= 0 && at < num_sources ? at : -1;
  }
};

/// Sums the terms of each result in their order, each product rounded. Rows have `columns`
/// elements, of which those of the piece are summed.
void sum_rows_f32(const RowOrder& order, const RowPiece& piece, std::int64_t columns,
                  const RowTerms<float>& terms);

}  // namespace pando::cpu
