#include "pando/backends/cpu/kernels/reduce_rows.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "pando/backends/cpu/kernels/reduce_rows.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <hwy/cache_control.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "pando/backends/cpu/masked_load-inl.h"

HWY_BEFORE_NAMESPACE();
namespace pando::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

// Floats summed in float before the partial sum joins the double total.
constexpr std::int64_t kBlock = 2048;
// Gains on Zen 3, which does not look beyond the page that it reads; costs a half on Zen 4, which
// has AVX-512. No others were measured.
constexpr bool kPrefetches = HWY_TARGET > HWY_AVX3;
constexpr std::int64_t kLine = 16;
constexpr std::int64_t kAhead = 32 * kLine;

template <Reduction R>
constexpr bool kIsExtreme = R == Reduction::Max || R == Reduction::Min;

/// An extreme of numbers of which one is NaN may be any of them.
template <Reduction R>
HWY_INLINE V CombineNumbers(V a, V b) {
  if constexpr (R == Reduction::Sum) return hn::Add(a, b);
  if constexpr (R == Reduction::Prod) return hn::Mul(a, b);
  if constexpr (R == Reduction::Max) return hn::Max(a, b);
  if constexpr (R == Reduction::Min) return hn::Min(a, b);
}

template <Reduction R>
HWY_INLINE V Combine(V a, V b) {
  const V combined = CombineNumbers<R>(a, b);
  if constexpr (!kIsExtreme<R>) return combined;
  return hn::IfThenElse(hn::IsNaN(a), a, hn::IfThenElse(hn::IsNaN(b), b, combined));
}

template <Reduction R>
HWY_INLINE double CombineScalar(double a, double b) {
  if constexpr (R == Reduction::Sum) return a + b;
  if constexpr (R == Reduction::Prod) return a * b;
  if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<double>::quiet_NaN();
  return R == Reduction::Max ? std::max(a, b) : std::min(a, b);
}

template <Reduction R>
HWY_INLINE double CombineLanes(V v) {
  const D d;
#if HWY_TARGET != HWY_SCALAR
  if constexpr (R == Reduction::Sum) {
    const hn::Half<D> half;
    const hn::Rebind<double, hn::Half<D>> wide;
    return hn::GetLane(hn::SumOfLanes(wide, hn::Add(hn::PromoteTo(wide, hn::LowerHalf(half, v)),
                                                    hn::PromoteTo(wide, hn::UpperHalf(half, v)))));
  }
  if constexpr (kIsExtreme<R>) {
    if (!hn::AllFalse(d, hn::IsNaN(v))) return std::numeric_limits<double>::quiet_NaN();
    return hn::GetLane(R == Reduction::Max ? hn::MaxOfLanes(d, v) : hn::MinOfLanes(d, v));
  }
#endif
  HWY_ALIGN float lanes[HWY_MAX_BYTES / sizeof(float)];
  hn::Store(v, d, lanes);
  double total = lanes[0];
  for (std::size_t i = 1; i < hn::Lanes(d); ++i) total = CombineScalar<R>(total, lanes[i]);
  return total;
}

template <Reduction R>
HWY_NOINLINE double RunBlockWithNaNs(const float* values, std::int64_t count) {
  double total = values[0];
  for (std::int64_t i = 1; i < count; ++i) total = CombineScalar<R>(total, values[i]);
  return total;
}

template <Reduction R>
HWY_INLINE double RunBlock(const float* values, std::int64_t count, float identity) {
  const D d;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(d));
  V a0 = hn::Set(d, identity), a1 = a0, a2 = a0, a3 = a0;
  V sum = hn::Zero(d);  // of an extreme: NaN once a value is (or two infinities cancel)
  std::int64_t i = 0;
  for (; i + 4 * lanes <= count; i += 4 * lanes) {
    if constexpr (kPrefetches) {
      for (std::int64_t k = 0; k < 4 * lanes; k += kLine) hwy::Prefetch(values + i + kAhead + k);
    }
    const V v0 = hn::LoadU(d, values + i), v1 = hn::LoadU(d, values + i + lanes);
    const V v2 = hn::LoadU(d, values + i + 2 * lanes), v3 = hn::LoadU(d, values + i + 3 * lanes);
    a0 = CombineNumbers<R>(a0, v0);
    a1 = CombineNumbers<R>(a1, v1);
    a2 = CombineNumbers<R>(a2, v2);
    a3 = CombineNumbers<R>(a3, v3);
    if constexpr (kIsExtreme<R>) sum = hn::Add(sum, hn::Add(hn::Add(v0, v1), hn::Add(v2, v3)));
  }
  if constexpr (kIsExtreme<R>) {
    if (!hn::AllFalse(d, hn::IsNaN(sum))) return RunBlockWithNaNs<R>(values, count);
  }
  for (; i + lanes <= count; i += lanes) a0 = Combine<R>(a0, hn::LoadU(d, values + i));
  double total = CombineLanes<R>(Combine<R>(Combine<R>(a0, a1), Combine<R>(a2, a3)));
  for (; i < count; ++i) total = CombineScalar<R>(total, values[i]);
  return total;
}

template <Reduction R>
double Run(const float* values, std::int64_t count) {
  double total = reduction_identity(R);
  const float identity = static_cast<float>(total);
  for (std::int64_t i = 0; i < count; i += kBlock) {
    total = CombineScalar<R>(total, RunBlock<R>(values + i, std::min(kBlock, count - i), identity));
  }
  return total;
}

template <Reduction R>
void Rows(float* acc, const float* rows, std::int64_t row_count, std::int64_t row_stride,
          std::int64_t columns) {
  const D d;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t j = 0;
  for (; j + 4 * lanes <= columns; j += 4 * lanes) {
    V a0 = hn::LoadU(d, acc + j), a1 = hn::LoadU(d, acc + j + lanes);
    V a2 = hn::LoadU(d, acc + j + 2 * lanes), a3 = hn::LoadU(d, acc + j + 3 * lanes);
    const float* row = rows + j;
    for (std::int64_t r = 0; r < row_count; ++r, row += row_stride) {
      a0 = Combine<R>(a0, hn::LoadU(d, row));
      a1 = Combine<R>(a1, hn::LoadU(d, row + lanes));
      a2 = Combine<R>(a2, hn::LoadU(d, row + 2 * lanes));
      a3 = Combine<R>(a3, hn::LoadU(d, row + 3 * lanes));
    }
    hn::StoreU(a0, d, acc + j);
    hn::StoreU(a1, d, acc + j + lanes);
    hn::StoreU(a2, d, acc + j + 2 * lanes);
    hn::StoreU(a3, d, acc + j + 3 * lanes);
  }
  for (; j < columns; j += lanes) {
    const auto mask = hn::FirstN(d, static_cast<std::size_t>(std::min(lanes, columns - j)));
    V a = LoadFirst(mask, d, acc + j);
    for (std::int64_t r = 0; r < row_count; ++r) {
      a = Combine<R>(a, LoadFirst(mask, d, rows + r * row_stride + j));
    }
    hn::BlendedStore(a, mask, d, acc + j);
  }
}

/// Calls body with the reduction as a type.
template <class Body>
HWY_INLINE auto WithReduction(Reduction reduction, const Body& body) {
  switch (reduction) {
    case Reduction::Sum:
      return body(std::integral_constant<Reduction, Reduction::Sum>());
    case Reduction::Max:
      return body(std::integral_constant<Reduction, Reduction::Max>());
    case Reduction::Min:
      return body(std::integral_constant<Reduction, Reduction::Min>());
    default:
      return body(std::integral_constant<Reduction, Reduction::Prod>());
  }
}

double ReduceRun(Reduction reduction, const float* values, std::int64_t count) {
  return WithReduction(reduction, [&](auto r) { return Run<r>(values, count); });
}

void ReduceEachRow(Reduction reduction, const float* rows, std::int64_t row_count,
                   std::int64_t row_stride, std::int64_t columns, float* results) {
  WithReduction(reduction, [&](auto r) {
    for (std::int64_t i = 0; i < row_count; ++i) {
      results[i] = static_cast<float>(Run<r>(rows + i * row_stride, columns));
    }
  });
}

void ReduceRows(Reduction reduction, float* acc, const float* rows, std::int64_t row_count,
                std::int64_t row_stride, std::int64_t columns) {
  WithReduction(reduction, [&](auto r) { Rows<r>(acc, rows, row_count, row_stride, columns); });
}

}  // namespace HWY_NAMESPACE
}  // namespace pando::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pando::cpu {

HWY_EXPORT(ReduceRun);
HWY_EXPORT(ReduceEachRow);
HWY_EXPORT(ReduceRows);

double reduction_identity(Reduction reduction) {
  switch (reduction) {
    case Reduction::Sum:
      return 0.0;
    case Reduction::Prod:
      return 1.0;
    case Reduction::Max:
      return -std::numeric_limits<double>::infinity();
    default:
      return std::numeric_limits<double>::infinity();
  }
}

double reduce_run_f32(Reduction reduction, const float* values, std::int64_t count) {
  return HWY_DYNAMIC_DISPATCH(ReduceRun)(reduction, values, count);
}

void reduce_each_row_f32(Reduction reduction, const float* rows, std::int64_t row_count,
                         std::int64_t row_stride, std::int64_t columns, float* results) {
  HWY_DYNAMIC_DISPATCH(ReduceEachRow)(reduction, rows, row_count, row_stride, columns, results);
}

void reduce_rows_f32(Reduction reduction, float* acc, const float* rows, std::int64_t row_count,
                     std::int64_t row_stride, std::int64_t columns) {
  HWY_DYNAMIC_DISPATCH(ReduceRows)(reduction, acc, rows, row_count, row_stride, columns);
}

}  // namespace pando::cpu
#endif  // HWY_ONCE
