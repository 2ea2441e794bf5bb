#include "pando/backends/cpu/kernels/batch_norm_rows.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "pando/backends/cpu/kernels/batch_norm_rows.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>

#include "pando/backends/cpu/masked_load-inl.h"

HWY_BEFORE_NAMESPACE();
namespace pando::cpu::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;
using M = hn::Mask<D>;
constexpr std::int64_t kLanes = hn::MaxLanes(D());

/// Calls whole(i, s) for the full vectors of [0, count), where s, 0 or 1, tells neighbours apart,
/// and part(i, mask) for the rest.
template <class Whole, class Part>
HWY_INLINE void ForVectors(std::int64_t count, const Whole& whole, const Part& part) {
  std::int64_t i = 0;
  for (; i + 2 * kLanes <= count; i += 2 * kLanes) {
    whole(i, 0);
    whole(i + kLanes, 1);
  }
  if (i + kLanes <= count) {
    whole(i, 0);
    i += kLanes;
  }
  if (i < count) part(i, hn::FirstN(D(), static_cast<std::size_t>(count - i)));
}

HWY_INLINE float Total(V a, V b) { return hn::GetLane(hn::SumOfLanes(D(), hn::Add(a, b))); }

BlockMoments BlockMomentsOf(const float* x, std::int64_t stride, std::int64_t rows,
                            std::int64_t count) {
  const D d;
  V sums[2] = {hn::Zero(d), hn::Zero(d)};
  for (std::int64_t row = 0; row < rows; ++row) {
    const float* from = x + row * stride;
    ForVectors(
        count,
        [&](std::int64_t i, int s) HWY_ATTR { sums[s] = hn::Add(sums[s], hn::LoadU(d, from + i)); },
        [&](std::int64_t i, M mask)
            HWY_ATTR { sums[1] = hn::Add(sums[1], LoadFirst(mask, d, from + i)); });
  }
  const float mean = Total(sums[0], sums[1]) / static_cast<float>(rows * count);
  const V centre = hn::Set(d, mean);
  V squares[2] = {hn::Zero(d), hn::Zero(d)};
  for (std::int64_t row = 0; row < rows; ++row) {
    const float* from = x + row * stride;
    ForVectors(
        count,
        [&](std::int64_t i, int s) HWY_ATTR {
          const V a = hn::Sub(hn::LoadU(d, from + i), centre);
          squares[s] = hn::MulAdd(a, a, squares[s]);
        },
        [&](std::int64_t i, M mask) HWY_ATTR {
          const V a = hn::IfThenElseZero(mask, hn::Sub(LoadFirst(mask, d, from + i), centre));
          squares[1] = hn::MulAdd(a, a, squares[1]);
        });
  }
  return {mean, Total(squares[0], squares[1])};
}

BlockProducts BlockProductsOf(const float* g, const float* x, std::int64_t stride,
                              std::int64_t rows, std::int64_t count, float mean) {
  const D d;
  const V centre = hn::Set(d, mean);
  V sums[2] = {hn::Zero(d), hn::Zero(d)}, products[2] = {hn::Zero(d), hn::Zero(d)};
  for (std::int64_t row = 0; row < rows; ++row) {
    const float* from = x + row * stride;
    const float* factors = g + row * stride;
    ForVectors(
        count,
        [&](std::int64_t i, int s) HWY_ATTR {
          const V v = hn::LoadU(d, factors + i);
          sums[s] = hn::Add(sums[s], v);
          products[s] = hn::MulAdd(v, hn::Sub(hn::LoadU(d, from + i), centre), products[s]);
        },
        [&](std::int64_t i, M mask) HWY_ATTR {
          const V v = LoadFirst(mask, d, factors + i);
          const V a = hn::IfThenElseZero(mask, hn::Sub(LoadFirst(mask, d, from + i), centre));
          sums[1] = hn::Add(sums[1], v);
          products[1] = hn::MulAdd(v, a, products[1]);
        });
  }
  return {Total(sums[0], sums[1]), Total(products[0], products[1])};
}

/// Calls body(first column, lanes used) for vectors of columns; all lanes but for the last one.
template <class Body>
HWY_INLINE void ForColumns(std::int64_t count, const Body& body) {
  for (std::int64_t i = 0; i < count; i += kLanes) body(i, std::min(kLanes, count - i));
}

HWY_INLINE V LoadLanes(const float* from, std::int64_t lanes) {
  const D d;
  if (lanes == kLanes) return hn::LoadU(d, from);
  return LoadFirst(hn::FirstN(d, static_cast<std::size_t>(lanes)), d, from);
}

HWY_INLINE void StoreLanes(V value, float* to, std::int64_t lanes) {
  const D d;
  if (lanes == kLanes) return hn::StoreU(value, d, to);
  hn::BlendedStore(value, hn::FirstN(d, static_cast<std::size_t>(lanes)), d, to);
}

/// The sum of term(row) over the rows.
template <class Term>
HWY_INLINE V SumOfRows(std::int64_t rows, const Term& term) {
  V s0 = hn::Zero(D()), s1 = s0, s2 = s0, s3 = s0;
  std::int64_t row = 0;
  for (; row + 4 <= rows; row += 4) {
    s0 = hn::Add(s0, term(row));
    s1 = hn::Add(s1, term(row + 1));
    s2 = hn::Add(s2, term(row + 2));
    s3 = hn::Add(s3, term(row + 3));
  }
  for (; row < rows; ++row) s0 = hn::Add(s0, term(row));
  return hn::Add(hn::Add(s0, s1), hn::Add(s2, s3));
}

void ColumnMomentsOf(const float* x, std::int64_t stride, std::int64_t rows, std::int64_t count,
                     float* mean, float* squares) {
  const V one_row = hn::Set(D(), 1.0f / static_cast<float>(rows));
  ForColumns(count, [&](std::int64_t i, std::int64_t lanes) HWY_ATTR {
    const float* from = x + i;
    const V sum = SumOfRows(
        rows, [&](std::int64_t row) HWY_ATTR { return LoadLanes(from + row * stride, lanes); });
    const V centre = hn::Mul(sum, one_row);
    StoreLanes(centre, mean + i, lanes);
    const V total = SumOfRows(rows, [&](std::int64_t row) HWY_ATTR {
      const V a = hn::Sub(LoadLanes(from + row * stride, lanes), centre);
      return hn::Mul(a, a);
    });
    StoreLanes(total, squares + i, lanes);
  });
}

void ColumnProductsOf(const float* g, const float* x, std::int64_t stride, std::int64_t rows,
                      std::int64_t count, const float* mean, float* sum_g, float* sum_g_x) {
  ForColumns(count, [&](std::int64_t i, std::int64_t lanes) HWY_ATTR {
    const V centre = LoadLanes(mean + i, lanes);
    StoreLanes(SumOfRows(rows, [&](std::int64_t row)
                                   HWY_ATTR { return LoadLanes(g + i + row * stride, lanes); }),
               sum_g + i, lanes);
    StoreLanes(SumOfRows(rows,
                         [&](std::int64_t row) HWY_ATTR {
                           const V a = hn::Sub(LoadLanes(x + i + row * stride, lanes), centre);
                           return hn::Mul(LoadLanes(g + i + row * stride, lanes), a);
                         }),
               sum_g_x + i, lanes);
  });
}

}  // namespace
}  // namespace pando::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pando::cpu {

HWY_EXPORT(BlockMomentsOf);
HWY_EXPORT(ColumnMomentsOf);
HWY_EXPORT(BlockProductsOf);
HWY_EXPORT(ColumnProductsOf);

BlockMoments block_moments_f32(const float* x, std::int64_t stride, std::int64_t rows,
                               std::int64_t count) {
  return HWY_DYNAMIC_DISPATCH(BlockMomentsOf)(x, stride, rows, count);
}

void column_moments_f32(const float* x, std::int64_t stride, std::int64_t rows, std::int64_t count,
                        float* mean, float* squares) {
  HWY_DYNAMIC_DISPATCH(ColumnMomentsOf)(x, stride, rows, count, mean, squares);
}

BlockProducts block_products_f32(const float* g, const float* x, std::int64_t stride,
                                 std::int64_t rows, std::int64_t count, float mean) {
  return HWY_DYNAMIC_DISPATCH(BlockProductsOf)(g, x, stride, rows, count, mean);
}

void column_products_f32(const float* g, const float* x, std::int64_t stride, std::int64_t rows,
                         std::int64_t count, const float* mean, float* sum_g, float* sum_g_x) {
  HWY_DYNAMIC_DISPATCH(ColumnProductsOf)(g, x, stride, rows, count, mean, sum_g, sum_g_x);
}

}  // namespace pando::cpu
#endif  // HWY_ONCE
