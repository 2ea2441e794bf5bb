#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "pando/backends/cpu/fused/row_products.cpp"
// Highway includes this file once per SIMD target.
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "pando/backends/cpu/fused/micro_op.hpp"
#include "pando/backends/cpu/masked_load-inl.h"

// Vector types as template arguments lose their attributes; nothing here depends on them.
#pragma GCC diagnostic ignored "-Wignored-attributes"

HWY_BEFORE_NAMESPACE();
namespace pando::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;

/// Vectors of two rows that stay in registers, beside those of the right matrix.
constexpr int kVectorsOfTwoRows = HWY_TARGET <= HWY_AVX3 ? 8 : 4;

/// kVectors vectors of columns of kRows rows, which stay in registers over the whole depth.
template <int kRows, int kVectors>
HWY_INLINE void SumColumns(const RowProducts& p, const float* left, std::int64_t column,
                           float* out) {
  const D d;
  const std::size_t lanes = hn::Lanes(d);
  hn::Vec<D> sums[kRows][kVectors];
  for (auto& row : sums) std::fill_n(row, kVectors, hn::Zero(d));
  const float* right = p.right + column;
  for (std::int64_t k = 0; k < p.depth; ++k, right += p.right_stride) {
    hn::Vec<D> factors[kRows];
    for (int r = 0; r < kRows; ++r)
      factors[r] = hn::Set(d, left[r * p.left_row + k * p.left_stride]);
    for (int v = 0; v < kVectors; ++v) {
      const auto values = hn::LoadU(d, right + static_cast<std::size_t>(v) * lanes);
      for (int r = 0; r < kRows; ++r) sums[r][v] = hn::MulAdd(factors[r], values, sums[r][v]);
    }
  }
  for (int r = 0; r < kRows; ++r) {
    float* to = out + r * p.columns + column;
    for (int v = 0; v < kVectors; ++v)
      hn::StoreU(sums[r][v], d, to + static_cast<std::size_t>(v) * lanes);
  }
}

/// Fewer columns than a vector has lanes.
HWY_INLINE void SumLastColumns(const RowProducts& p, const float* left, std::int64_t column,
                               float* out) {
  const D d;
  const auto rest = hn::FirstN(d, static_cast<std::size_t>(p.columns - column));
  const float* right = p.right + column;
  auto sum = hn::Zero(d);
  for (std::int64_t k = 0; k < p.depth; ++k, right += p.right_stride) {
    const auto factor = hn::Set(d, left[k * p.left_stride]);
    sum = hn::MulAdd(factor, LoadFirst(rest, d, right), sum);
  }
  hn::BlendedStore(sum, rest, d, out + column);
}

template <int kRows, int kVectors>
HWY_INLINE void SumRows(const RowProducts& p, const float* left, float* out) {
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(D()));
  std::int64_t column = 0;
  for (; column + kVectors * lanes <= p.columns; column += kVectors * lanes) {
    SumColumns<kRows, kVectors>(p, left, column, out);
  }
  for (; column + lanes <= p.columns; column += lanes) SumColumns<kRows, 1>(p, left, column, out);
  if (column == p.columns) return;
  for (int r = 0; r < kRows; ++r) {
    SumLastColumns(p, left + r * p.left_row, column, out + r * p.columns);
  }
}

void MultiplyRowProducts(const RowProducts& p, float* HWY_RESTRICT out) {
  std::int64_t row = 0;
  for (; row + 2 <= p.rows; row += 2) {
    SumRows<2, kVectorsOfTwoRows>(p, p.left + row * p.left_row, out + row * p.columns);
  }
  if (row < p.rows) SumRows<1, 8>(p, p.left + row * p.left_row, out + row * p.columns);
}

}  // namespace HWY_NAMESPACE
}  // namespace pando::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pando::cpu {

HWY_EXPORT(MultiplyRowProducts);

void multiply_row_products(const RowProducts& operands, float* out) {
  HWY_DYNAMIC_DISPATCH(MultiplyRowProducts)(operands, out);
}

}  // namespace pando::cpu
#endif
