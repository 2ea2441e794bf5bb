// The innermost loops of reductions.
#pragma once

#include <cstdint>

namespace pando::cpu {

enum class Reduction { Sum, Max, Min, Prod };

/// Value of the reduction over nothing.
double reduction_identity(Reduction reduction);

/// Reduces `count` contiguous floats. Sums and products in blocks with a double total, in an order
/// that depends on `count` only. Max and Min give NaN if any value is NaN.
double reduce_run_f32(Reduction reduction, const float* values, std::int64_t count);

/// results[i] = reduce_run_f32 of row i, rounded.
void reduce_each_row_f32(Reduction reduction, const float* rows, std::int64_t row_count,
                         std::int64_t row_stride, std::int64_t columns, float* results);

/// acc[j] = acc[j] op row[j] for every one of `rows` rows, in order.
void reduce_rows_f32(Reduction reduction, float* acc, const float* rows, std::int64_t row_count,
                     std::int64_t row_stride, std::int64_t columns);

}  // namespace pando::cpu
