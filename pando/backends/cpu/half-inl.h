// Exact conversions of vectors from and to the float formats of 16 bits. Included once per SIMD
// target.
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

struct Float16Vectors {
  static HWY_INLINE float ToFloat(std::uint16_t bits) { return half_to_float(bits); }

  template <class D>
  static HWY_INLINE hn::Vec<D> Load(D d, const std::uint16_t* from) {
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
  static HWY_INLINE void Store([[maybe_unused]] D d, hn::Vec<D> value, std::uint16_t* to) {
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
  static HWY_INLINE hn::Vec<D> Round(D d, hn::Vec<D> value) {
#if PANDO_HAS_HALF
    const hn::Rebind<hwy::float16_t, D> half;
    return hn::PromoteTo(d, hn::DemoteTo(half, value));
#else
    std::uint16_t bits[hn::MaxLanes(D())];
    Store(d, value, bits);
    return Load(d, bits);
#endif
  }
};

// Loads as the other formats, for code that takes any.
struct Float32Vectors {
  static HWY_INLINE float ToFloat(float value) { return value; }

  template <class D>
  static HWY_INLINE hn::Vec<D> Load(D d, const float* from) {
    return hn::LoadU(d, from);
  }
};

// With integers, as float_to_bfloat16: the instructions for bfloat16 flush denormals.
struct BFloat16Vectors {
  static HWY_INLINE float ToFloat(std::uint16_t bits) { return bfloat16_to_float(bits); }

  template <class D>
  static HWY_INLINE hn::Vec<D> Load(D d, const std::uint16_t* from) {
    const hn::RebindToUnsigned<D> wide;
    const hn::Rebind<std::uint16_t, D> narrow;
    return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(wide, hn::LoadU(narrow, from))));
  }

  template <class D>
  static HWY_INLINE void Store(D d, hn::Vec<D> value, std::uint16_t* to) {
    const hn::RebindToSigned<D> wide;
    const hn::Rebind<std::uint16_t, D> narrow;
    const auto bits = hn::BitCast(wide, hn::ShiftRight<16>(RoundedBits(d, value)));
    hn::StoreU(hn::DemoteTo(narrow, bits), narrow, to);
  }

  template <class D>
  static HWY_INLINE hn::Vec<D> Round(D d, hn::Vec<D> value) {
    const hn::RebindToUnsigned<D> wide;
    return hn::BitCast(d, hn::And(RoundedBits(d, value), hn::Set(wide, 0xffff0000U)));
  }

 private:
  /// In the upper halves of the lanes; the lower halves have anything.
  template <class D>
  static HWY_INLINE hn::Vec<hn::RebindToUnsigned<D>> RoundedBits(D, hn::Vec<D> value) {
    const hn::RebindToUnsigned<D> wide;
    const auto bits = hn::BitCast(wide, value);
    const auto is_number = hn::RebindMask(wide, hn::Eq(value, value));
    const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(wide, 1));
    const auto up = hn::IfThenElseZero(is_number, hn::Add(odd, hn::Set(wide, 0x7fff)));
    const auto quiet = hn::IfThenZeroElse(is_number, hn::Set(wide, 0x400000));
    return hn::Or(hn::Add(bits, up), quiet);
  }
};

}  // namespace pando::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // PANDO_HALF_INL_H
