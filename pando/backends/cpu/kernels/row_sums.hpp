// Sums of the rows that go to one result.
#pragma once

#include "pando/backends/cpu/kernels/row_order.hpp"

namespace pando::cpu {

/// What is summed, in a block.
template <class T>
struct RowTerms {
  const T* x = nullptr;        // a row for each index
  const T* initial = nullptr;  // of each result, maybe the memory of `out`; nullptr: 0
  T* out = nullptr;

  /// Whether the result has its value already.
  bool keeps(const RowOrder& order, std::int64_t result) const {
    return initial == out && order.starts[result] == order.starts[result + 1];
  }
};

/// Sums the terms of each result in their order. Rows have `columns` elements, of which those of
/// the piece are summed.
void sum_rows_f32(const RowOrder& order, const RowPiece& piece, std::int64_t columns,
                  const RowTerms<float>& terms);

}  // namespace pando::cpu
