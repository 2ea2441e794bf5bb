#include "pando/backends/cpu/kernels/half_rows.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "pando/backends/cpu/kernels/half_rows.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "pando/base/half.hpp"

HWY_BEFORE_NAMESPACE();
namespace pando::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;
using DHalf = hn::Rebind<hwy::float16_t, D>;

// Without hardware conversions the vector forms flush denormals; the exact scalar ones do not.
#if HWY_TARGET <= HWY_AVX2
constexpr bool kVector = true;
#else
constexpr bool kVector = false;
#endif

void HalvesToFloats(const std::uint16_t* from, float* to, std::size_t count) {
  std::size_t i = 0;
  if constexpr (kVector) {
    const D d;
    const DHalf dh;
    const auto* halves = reinterpret_cast<const hwy::float16_t*>(from);
    for (; i + hn::Lanes(d) <= count; i += hn::Lanes(d)) {
      hn::StoreU(hn::PromoteTo(d, hn::LoadU(dh, halves + i)), d, to + i);
    }
  }
  for (; i < count; ++i) to[i] = half_to_float(from[i]);
}

void FloatsToHalves(const float* from, std::uint16_t* to, std::size_t count) {
  std::size_t i = 0;
  if constexpr (kVector) {
    const D d;
    const DHalf dh;
    auto* halves = reinterpret_cast<hwy::float16_t*>(to);
    for (; i + hn::Lanes(d) <= count; i += hn::Lanes(d)) {
      hn::StoreU(hn::DemoteTo(dh, hn::LoadU(d, from + i)), dh, halves + i);
    }
  }
  for (; i < count; ++i) to[i] = float_to_half(from[i]);
}

}  // namespace HWY_NAMESPACE
}  // namespace pando::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pando::cpu {

HWY_EXPORT(HalvesToFloats);
HWY_EXPORT(FloatsToHalves);

void halves_to_floats(const std::uint16_t* from, float* to, std::size_t count) {
  HWY_DYNAMIC_DISPATCH(HalvesToFloats)(from, to, count);
}

void floats_to_halves(const float* from, std::uint16_t* to, std::size_t count) {
  HWY_DYNAMIC_DISPATCH(FloatsToHalves)(from, to, count);
}

}  // namespace pando::cpu
#endif  // HWY_ONCE
