#include "pando/backends/cpu/kernels/depthwise_sums.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "pando/backends/cpu/kernels/depthwise_sums.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>

#include "pando/backends/cpu/masked_load-inl.h"

HWY_BEFORE_NAMESPACE();
namespace pando::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

/// As many sums as stay in registers, beside what they are made of.
constexpr std::int64_t kMostTaps = 8;

template <int kTaps>
HWY_INLINE void AddTaps(const DepthwisePlane& plane, const std::int64_t* offsets, float* sums) {
  const D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const std::int64_t whole = plane.columns / lanes * lanes;
  const auto rest = hn::FirstN(d, static_cast<std::size_t>(plane.columns - whole));
  V acc[kTaps];
  for (int t = 0; t < kTaps; ++t) acc[t] = hn::Zero(d);
  for (std::int64_t y = 0; y < plane.rows; ++y) {
    const float* gradient = plane.gradient + y * plane.columns;
    const float* image = plane.image + y * plane.image_row;
    for (std::int64_t x = 0; x < whole; x += lanes) {
      const V g = hn::LoadU(d, gradient + x);
      for (int t = 0; t < kTaps; ++t) {
        acc[t] = hn::MulAdd(hn::LoadU(d, image + offsets[t] + x), g, acc[t]);
      }
    }
    if (whole == plane.columns) continue;
    const V g = LoadFirst(rest, d, gradient + whole);
    for (int t = 0; t < kTaps; ++t) {
      acc[t] = hn::MulAdd(LoadFirst(rest, d, image + offsets[t] + whole), g, acc[t]);
    }
  }
  for (int t = 0; t < kTaps; ++t) sums[t] += hn::GetLane(hn::SumOfLanes(d, acc[t]));
}

template <int kTaps = kMostTaps>
void AddSomeTaps(const DepthwisePlane& plane, const std::int64_t* offsets, std::int64_t count,
                 float* sums) {
  if (count == kTaps) return AddTaps<kTaps>(plane, offsets, sums);
  if constexpr (kTaps > 1) AddSomeTaps<kTaps - 1>(plane, offsets, count, sums);
}

void AddSums(const DepthwisePlane& plane, const std::int64_t* offsets, std::int64_t count,
             float* sums) {
  const std::int64_t blocks = (count + kMostTaps - 1) / kMostTaps;
  for (std::int64_t i = 0; i < blocks; ++i) {
    const std::int64_t begin = count * i / blocks, end = count * (i + 1) / blocks;
    AddSomeTaps(plane, offsets + begin, end - begin, sums + begin);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace pando::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pando::cpu {

HWY_EXPORT(AddSums);

void add_depthwise_sums(const DepthwisePlane& plane, const std::int64_t* offsets,
                        std::int64_t count, float* sums) {
  HWY_DYNAMIC_DISPATCH(AddSums)(plane, offsets, count, sums);
}

}  // namespace pando::cpu
#endif  // HWY_ONCE
