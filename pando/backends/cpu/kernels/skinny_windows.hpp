// Parts of products with few rows, which read the right operand where it lies.
#pragma once

#include <cstdint>

#include "pando/base/dtype.hpp"

namespace pando::cpu {

/// Strides of the operands in elements. The lhs and the bias are float32.
struct SkinnyMatMul {
  std::int64_t m, n, k;
  std::int64_t lhs_row, lhs_column, rhs_row, rhs_column;
};

/// Rows [row_begin, row_end) and columns [column_begin, column_end) of the product.
struct Window {
  std::int64_t row_begin, row_end, column_begin, column_end;
};

/// How the rhs is read. Rows: each once, as it lies, while the sums wait in the first cache level.
/// Columns: two vectors of each row at a time, while their sums are in registers. Dots: columns of
/// a transposed rhs.
enum class SkinnyWay { Rows, Columns, Dots };

/// Most rows of a product of half precision.
constexpr std::int64_t kMaxTileRows = 32;
/// Most rows of a window for SkinnyWay::Rows, which has all rows of the product.
constexpr std::int64_t kMaxStreamedRows = 4;
/// Most rows for which SkinnyWay::Dots is faster than what packs; at most kMaxTileRows.
std::int64_t max_dot_rows();

/// out = lhs * rhs + bias in the window. `bias` may be nullptr.
void run_window(SkinnyWay way, const SkinnyMatMul& p, const float* lhs, const float* rhs,
                const float* bias, float* out, const Window& window);
/// The same with an rhs and a result of half precision; sums are float32.
void run_half_window(SkinnyWay way, DType format, const SkinnyMatMul& p, const float* lhs,
                     const std::uint16_t* rhs, const float* bias, std::uint16_t* out,
                     const Window& window);

}  // namespace pando::cpu
