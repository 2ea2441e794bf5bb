#include "pando/backends/cpu/kernels/norm_rows.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "pando/backends/cpu/kernels/norm_rows.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>

#include "pando/backends/cpu/masked_load-inl.h"
#include "pando/backends/cpu/unroll.hpp"

HWY_BEFORE_NAMESPACE();
namespace pando::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

// Floats summed in float before they join the double total.
constexpr std::int64_t kBlock = 4096;

/// Calls whole(i) for every full vector and part(i, mask) for the rest of [begin, end).
template <class Whole, class Part>
HWY_INLINE void ForVectors(std::int64_t begin, std::int64_t end, const Whole& whole,
                           const Part& part) {
  const D d;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t i = begin;
  for (; i + lanes <= end; i += lanes) whole(i);
  if (i < end) part(i, hn::FirstN(d, static_cast<std::size_t>(end - i)));
}

/// Sums of vectors in registers of their own, which hide the latency of an addition: four, or two
/// where the loads and stores for a vector hide it as well. `ForSums` takes the same count.
template <int kCount>
struct VectorSums {
  V sums[kCount];

  VectorSums() { PANDO_UNROLL for (V& sum : sums) sum = hn::Zero(D()); }
  double total() const {
    V all = hn::Add(sums[0], sums[1]);
    if constexpr (kCount == 4) all = hn::Add(all, hn::Add(sums[2], sums[3]));
    return hn::GetLane(hn::SumOfLanes(D(), all));
  }
};

/// Adds to sum k of each in turn: whole(i, k) for every full vector, part(i, mask) for the rest.
template <int kCount, class Whole, class Part>
HWY_INLINE void ForSums(std::int64_t begin, std::int64_t end, const Whole& whole,
                        const Part& part) {
  constexpr auto kLanes = static_cast<std::int64_t>(hn::MaxLanes(D()));
  std::int64_t i = begin;
  for (; i + kCount * kLanes <= end; i += kCount * kLanes) {
    PANDO_UNROLL for (int k = 0; k < kCount; ++k) whole(i + k * kLanes, k);
  }
  ForVectors(
      i, end, [&](std::int64_t j) HWY_ATTR { whole(j, 0); }, part);
}

HWY_INLINE double SumOf(const float* x, std::int64_t count) {
  const D d;
  double total = 0;
  for (std::int64_t block = 0; block < count; block += kBlock) {
    VectorSums<4> of_x;
    const auto add = [&](V v, int k) HWY_ATTR { of_x.sums[k] = hn::Add(of_x.sums[k], v); };
    ForSums<4>(
        block, std::min(count, block + kBlock),
        [&](std::int64_t i, int k) HWY_ATTR { add(hn::LoadU(d, x + i), k); },
        [&](std::int64_t i, auto mask) HWY_ATTR { add(LoadFirst(mask, d, x + i), 1); });
    total += of_x.total();
  }
  return total;
}

HWY_INLINE double SquaredDeviations(const float* x, float centre, std::int64_t count) {
  const D d;
  const V mean = hn::Set(d, centre);
  double total = 0;
  for (std::int64_t block = 0; block < count; block += kBlock) {
    VectorSums<4> of_squares;
    const auto add = [&](V deviation, int k) HWY_ATTR {
      of_squares.sums[k] = hn::MulAdd(deviation, deviation, of_squares.sums[k]);
    };
    ForSums<4>(
        block, std::min(count, block + kBlock),
        [&](std::int64_t i, int k) HWY_ATTR { add(hn::Sub(hn::LoadU(d, x + i), mean), k); },
        [&](std::int64_t i, auto mask) HWY_ATTR {
          add(hn::IfThenElseZero(mask, hn::Sub(LoadFirst(mask, d, x + i), mean)), 0);
        });
    total += of_squares.total();
  }
  return total;
}

Moments MomentsOf(const float* x, std::int64_t count) {
  const auto n = static_cast<double>(count);
  const float mean = static_cast<float>(SumOf(x, count) / n);
  return {mean, static_cast<float>(SquaredDeviations(x, mean, count) / n)};
}

void AffineRow(const float* x, float* y, float mean, float scale, float shift, std::int64_t count) {
  const D d;
  const V m = hn::Set(d, mean), a = hn::Set(d, scale), b = hn::Set(d, shift);
  ForVectors(
      0, count,
      [&](std::int64_t i)
          HWY_ATTR { hn::StoreU(hn::MulAdd(hn::Sub(hn::LoadU(d, x + i), m), a, b), d, y + i); },
      [&](std::int64_t i, auto mask) HWY_ATTR {
        const V centred = hn::Sub(LoadFirst(mask, d, x + i), m);
        hn::BlendedStore(hn::MulAdd(centred, a, b), mask, d, y + i);
      });
}

void LayerNormRow(const float* x, const float* weight, const float* bias, float* y, float mean,
                  float inv_std, std::int64_t count) {
  const D d;
  const V m = hn::Set(d, mean), s = hn::Set(d, inv_std);
  ForVectors(
      0, count,
      [&](std::int64_t i) HWY_ATTR {
        const V xhat = hn::Mul(hn::Sub(hn::LoadU(d, x + i), m), s);
        hn::StoreU(hn::MulAdd(xhat, hn::LoadU(d, weight + i), hn::LoadU(d, bias + i)), d, y + i);
      },
      [&](std::int64_t i, auto mask) HWY_ATTR {
        const V xhat = hn::Mul(hn::Sub(LoadFirst(mask, d, x + i), m), s);
        const V w = LoadFirst(mask, d, weight + i);
        hn::BlendedStore(hn::MulAdd(xhat, w, LoadFirst(mask, d, bias + i)), mask, d, y + i);
      });
}

GradientSums GradientSumsOf(const float* g, const float* x, float mean, float inv_std,
                            std::int64_t count) {
  const D d;
  const V m = hn::Set(d, mean);
  GradientSums total;
  for (std::int64_t block = 0; block < count; block += kBlock) {
    VectorSums<4> of_g, of_g_x;
    const auto add = [&](V v, V element, int k) HWY_ATTR {
      of_g.sums[k] = hn::Add(of_g.sums[k], v);
      of_g_x.sums[k] = hn::MulAdd(v, hn::Sub(element, m), of_g_x.sums[k]);
    };
    ForSums<4>(
        block, std::min(count, block + kBlock),
        [&](std::int64_t i, int k) HWY_ATTR { add(hn::LoadU(d, g + i), hn::LoadU(d, x + i), k); },
        [&](std::int64_t i, auto mask)
            HWY_ATTR { add(LoadFirst(mask, d, g + i), LoadFirst(mask, d, x + i), 0); });
    total.g += of_g.total();
    total.g_x += of_g_x.total();
  }
  total.g_x *= inv_std;
  return total;
}

GradientSums LayerNormSums(const float* g, const float* x, const float* weight, float mean,
                           float inv_std, float* dweight, float* dbias, std::int64_t count) {
  const D d;
  const V m = hn::Set(d, mean), s = hn::Set(d, inv_std);
  GradientSums total;
  for (std::int64_t block = 0; block < count; block += kBlock) {
    VectorSums<2> of_e, of_e_xhat;
    const auto add = [&](V e, V xhat, int k) HWY_ATTR {
      of_e.sums[k] = hn::Add(of_e.sums[k], e);
      of_e_xhat.sums[k] = hn::MulAdd(e, xhat, of_e_xhat.sums[k]);
    };
    ForSums<2>(
        block, std::min(count, block + kBlock),
        [&](std::int64_t i, int k) HWY_ATTR {
          const V v = hn::LoadU(d, g + i);
          const V xhat = hn::Mul(hn::Sub(hn::LoadU(d, x + i), m), s);
          add(hn::Mul(v, hn::LoadU(d, weight + i)), xhat, k);
          hn::StoreU(hn::MulAdd(v, xhat, hn::LoadU(d, dweight + i)), d, dweight + i);
          hn::StoreU(hn::Add(v, hn::LoadU(d, dbias + i)), d, dbias + i);
        },
        [&](std::int64_t i, auto mask) HWY_ATTR {
          const V v = LoadFirst(mask, d, g + i);
          const V xhat = hn::Mul(hn::Sub(LoadFirst(mask, d, x + i), m), s);
          add(hn::Mul(v, LoadFirst(mask, d, weight + i)), xhat, 0);
          hn::BlendedStore(hn::MulAdd(v, xhat, LoadFirst(mask, d, dweight + i)), mask, d,
                           dweight + i);
          hn::BlendedStore(hn::Add(v, LoadFirst(mask, d, dbias + i)), mask, d, dbias + i);
        });
    total.g += of_e.total();
    total.g_x += of_e_xhat.total();
  }
  return total;
}

void NormGradientRow(const float* g, const float* x, const float* weight, float* dx,
                     const GradientFactors& f, std::int64_t count) {
  const D d;
  const V m = hn::Set(d, f.mean), s = hn::Set(d, f.inv_std), a = hn::Set(d, f.a);
  const V b = hn::Set(d, f.b), factor = hn::Set(d, f.factor);
  const auto value = [&](V gradient, V element, V w) HWY_ATTR {
    const V xhat = hn::Mul(hn::Sub(element, m), s);
    return hn::Mul(s, hn::NegMulAdd(xhat, b, hn::MulSub(gradient, w, a)));
  };
  ForVectors(
      0, count,
      [&](std::int64_t i) HWY_ATTR {
        const V w = weight == nullptr ? factor : hn::LoadU(d, weight + i);
        hn::StoreU(value(hn::LoadU(d, g + i), hn::LoadU(d, x + i), w), d, dx + i);
      },
      [&](std::int64_t i, auto mask) HWY_ATTR {
        const V w = weight == nullptr ? factor : LoadFirst(mask, d, weight + i);
        const V v = value(LoadFirst(mask, d, g + i), LoadFirst(mask, d, x + i), w);
        hn::BlendedStore(v, mask, d, dx + i);
      });
}

void AddPartialSums(const PartialSums& partial, float* sums, std::int64_t count) {
  const hn::ScalableTag<double> d;
  const hn::Rebind<float, decltype(d)> narrow;
  constexpr auto kLanes = static_cast<std::int64_t>(hn::MaxLanes(d));
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    auto total = hn::Zero(d);
    for (std::int64_t b = 0; b < partial.count; ++b) {
      total =
          hn::Add(total, hn::PromoteTo(d, hn::LoadU(narrow, partial.first + b * partial.step + i)));
    }
    hn::StoreU(hn::DemoteTo(narrow, total), narrow, sums + i);
  }
  add_partial_sums<float>({partial.first + i, partial.step, partial.count}, sums + i, count - i);
}

}  // namespace HWY_NAMESPACE
}  // namespace pando::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pando::cpu {

HWY_EXPORT(MomentsOf);
HWY_EXPORT(AffineRow);
HWY_EXPORT(LayerNormRow);
HWY_EXPORT(GradientSumsOf);
HWY_EXPORT(LayerNormSums);
HWY_EXPORT(NormGradientRow);
HWY_EXPORT(AddPartialSums);

Moments moments_f32(const float* x, std::int64_t count) {
  return HWY_DYNAMIC_DISPATCH(MomentsOf)(x, count);
}

void affine_row_f32(const float* x, float* y, float mean, float scale, float shift,
                    std::int64_t count) {
  HWY_DYNAMIC_DISPATCH(AffineRow)(x, y, mean, scale, shift, count);
}

void layer_norm_row_f32(const float* x, const float* weight, const float* bias, float* y,
                        float mean, float inv_std, std::int64_t count) {
  HWY_DYNAMIC_DISPATCH(LayerNormRow)(x, weight, bias, y, mean, inv_std, count);
}

GradientSums gradient_sums_f32(const float* g, const float* x, float mean, float inv_std,
                               std::int64_t count) {
  return HWY_DYNAMIC_DISPATCH(GradientSumsOf)(g, x, mean, inv_std, count);
}

GradientSums layer_norm_sums_f32(const float* g, const float* x, const float* weight, float mean,
                                 float inv_std, float* dweight, float* dbias, std::int64_t count) {
  return HWY_DYNAMIC_DISPATCH(LayerNormSums)(g, x, weight, mean, inv_std, dweight, dbias, count);
}

void norm_gradient_row_f32(const float* g, const float* x, const float* weight, float* dx,
                           const GradientFactors& factors, std::int64_t count) {
  HWY_DYNAMIC_DISPATCH(NormGradientRow)(g, x, weight, dx, factors, count);
}

void add_partial_sums(const PartialSums& partial, float* sums, std::int64_t count) {
  HWY_DYNAMIC_DISPATCH(AddPartialSums)(partial, sums, count);
}

}  // namespace pando::cpu
#endif  // HWY_ONCE
