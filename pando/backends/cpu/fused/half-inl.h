// Exact float16 conversions of vectors. Included once per SIMD target.
#include "hwy/highway.h"

#if defined(PANDO_HALF_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef PANDO_HALF_INL_H
#undef PANDO_HALF_INL_H
#else
#define PANDO_HALF_INL_H
#endif

#include "pando/base/half.hpp"

HWY_BEFORE_NAMESPACE();
namespace pando::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Highway emulates these conversions where the machine has none, without rounding to nearest.
#undef PANDO_HAS_HALF
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
#define PANDO_HAS_HALF 1
#else
#define PANDO_HAS_HALF 0
#endif

template <class D>
HWY_INLINE hn::Vec<D> LoadHalf(D d, const std::uint16_t* from) {
#if PANDO_HAS_HALF
  const hn::Rebind<hwy::float16_t, D> half;
  return hn::PromoteTo(d, hn::LoadU(half, reinterpret_cast<const hwy::float16_t*>(from)));
#else
  HWY_ALIGN float lanes[hn::MaxLanes(D())];
  for (std::size_t i = 0; i < hn::MaxLanes(D()); ++i) lanes[i] = half_to_float(from[i]);
  return hn::Load(d, lanes);
#endif
}

template <class D>
HWY_INLINE void StoreHalf([[maybe_unused]] D d, hn::Vec<D> value, std::uint16_t* to) {
#if PANDO_HAS_HALF
  const hn::Rebind<hwy::float16_t, D> half;
  hn::StoreU(hn::DemoteTo(half, value), half, reinterpret_cast<hwy::float16_t*>(to));
#else
  HWY_ALIGN float lanes[hn::MaxLanes(D())];
  hn::Store(value, d, lanes);
  for (std::size_t i = 0; i < hn::MaxLanes(D()); ++i) to[i] = float_to_half(lanes[i]);
#endif
}

template <class D>
HWY_INLINE hn::Vec<D> RoundHalf(D d, hn::Vec<D> value) {
#if PANDO_HAS_HALF
  const hn::Rebind<hwy::float16_t, D> half;
  return hn::PromoteTo(d, hn::DemoteTo(half, value));
#else
  std::uint16_t bits[hn::MaxLanes(D())];
  StoreHalf(d, value, bits);
  return LoadHalf(d, bits);
#endif
}

}  // namespace pando::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // PANDO_HALF_INL_H
