#include "pando/backends/cpu/kernels/softmax_rows.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "pando/backends/cpu/kernels/softmax_rows.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "pando/backends/cpu/exp-inl.h"
#include "pando/backends/cpu/masked_load-inl.h"

HWY_BEFORE_NAMESPACE();
namespace pando::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

// Floats summed in float before they join the double total.
constexpr std::int64_t kBlock = 4096;

HWY_INLINE float MaxOf(const float* in, std::int64_t count) {
  const D d;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(d));
  V m0 = hn::Set(d, -std::numeric_limits<float>::infinity()), m1 = m0, m2 = m0, m3 = m0;
  std::int64_t i = 0;
  for (; i + 4 * lanes <= count; i += 4 * lanes) {
    m0 = hn::Max(m0, hn::LoadU(d, in + i));
    m1 = hn::Max(m1, hn::LoadU(d, in + i + lanes));
    m2 = hn::Max(m2, hn::LoadU(d, in + i + 2 * lanes));
    m3 = hn::Max(m3, hn::LoadU(d, in + i + 3 * lanes));
  }
  for (; i + lanes <= count; i += lanes) m0 = hn::Max(m0, hn::LoadU(d, in + i));
  float result = hn::GetLane(hn::MaxOfLanes(d, hn::Max(hn::Max(m0, m1), hn::Max(m2, m3))));
  for (; i < count; ++i) result = std::max(result, in[i]);
  return result;
}

void MultiplyRow(const float* in, float* out, std::int64_t count, float factor) {
  const D d;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const V f = hn::Set(d, factor);
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    hn::StoreU(hn::Mul(f, hn::LoadU(d, in + i)), d, out + i);
  }
  for (; i < count; ++i) out[i] = factor * in[i];
}

/// Scaled: the arguments of exp are to be multiplied.
template <bool Scaled>
HWY_INLINE void SoftmaxRowOf(const float* in, float* out, std::int64_t count, float scale) {
  const D d;
  const V factor = hn::Set(d, scale);
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const V max = hn::Set(d, MaxOf(in, count));
  const auto exp = [&](V x) HWY_ATTR {
    const V below = hn::Sub(x, max);
    return ExpNonPositive(d, Scaled ? hn::Mul(factor, below) : below);
  };
  double total = 0;
  for (std::int64_t block = 0; block < count; block += kBlock) {
    const std::int64_t end = std::min(count, block + kBlock);
    V s0 = hn::Zero(d), s1 = s0;
    std::int64_t i = block;
    for (; i + 2 * lanes <= end; i += 2 * lanes) {
      const V e0 = exp(hn::LoadU(d, in + i)), e1 = exp(hn::LoadU(d, in + i + lanes));
      hn::StoreU(e0, d, out + i);
      hn::StoreU(e1, d, out + i + lanes);
      s0 = hn::Add(s0, e0);
      s1 = hn::Add(s1, e1);
    }
    for (; i < end; i += lanes) {
      const auto mask = hn::FirstN(d, static_cast<std::size_t>(std::min(lanes, end - i)));
      const V e = exp(LoadFirst(mask, d, in + i));
      hn::BlendedStore(e, mask, d, out + i);
      s0 = hn::Add(s0, hn::IfThenElseZero(mask, e));
    }
    total += hn::GetLane(hn::SumOfLanes(d, hn::Add(s0, s1)));
  }
  MultiplyRow(out, out, count, static_cast<float>(1.0 / total));
}

void SoftmaxRow(const float* in, float* out, std::int64_t count, float scale) {
  scale == 1.0f ? SoftmaxRowOf<false>(in, out, count, scale)
                : SoftmaxRowOf<true>(in, out, count, scale);
}

void SoftmaxGradRow(const float* out, const float* g, float* dx, std::int64_t count, float scale) {
  const D d;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(d));
  double total = 0;
  for (std::int64_t block = 0; block < count; block += kBlock) {
    const std::int64_t end = std::min(count, block + kBlock);
    V s0 = hn::Zero(d), s1 = s0;
    std::int64_t i = block;
    for (; i + 2 * lanes <= end; i += 2 * lanes) {
      s0 = hn::MulAdd(hn::LoadU(d, out + i), hn::LoadU(d, g + i), s0);
      s1 = hn::MulAdd(hn::LoadU(d, out + i + lanes), hn::LoadU(d, g + i + lanes), s1);
    }
    for (; i < end; i += lanes) {
      const auto mask = hn::FirstN(d, static_cast<std::size_t>(std::min(lanes, end - i)));
      s0 = hn::MulAdd(LoadFirst(mask, d, out + i), LoadFirst(mask, d, g + i), s0);
    }
    total += hn::GetLane(hn::SumOfLanes(d, hn::Add(s0, s1)));
  }
  const V sum = hn::Set(d, static_cast<float>(total)), factor = hn::Set(d, scale);
  for (std::int64_t i = 0; i < count; i += lanes) {
    const auto mask = hn::FirstN(d, static_cast<std::size_t>(std::min(lanes, count - i)));
    const V y = hn::Mul(factor, LoadFirst(mask, d, out + i));
    hn::BlendedStore(hn::Mul(y, hn::Sub(LoadFirst(mask, d, g + i), sum)), mask, d, dx + i);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace pando::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pando::cpu {

HWY_EXPORT(SoftmaxRow);
HWY_EXPORT(SoftmaxGradRow);
HWY_EXPORT(MultiplyRow);

void softmax_row_f32(const float* in, float* out, std::int64_t count, float scale) {
  HWY_DYNAMIC_DISPATCH(SoftmaxRow)(in, out, count, scale);
}

void softmax_grad_row_f32(const float* out, const float* g, float* dx, std::int64_t count,
                          float scale) {
  HWY_DYNAMIC_DISPATCH(SoftmaxGradRow)(out, g, dx, count, scale);
}

void multiply_row_f32(const float* in, float* out, std::int64_t count, float factor) {
  HWY_DYNAMIC_DISPATCH(MultiplyRow)(in, out, count, factor);
}

}  // namespace pando::cpu
#endif  // HWY_ONCE
