// Bounds of float vectors that keep NaN. Included once per SIMD target.
#include "hwy/highway.h"

#if defined(PANDO_NUMBER_BOUNDS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef PANDO_NUMBER_BOUNDS_INL_H
#undef PANDO_NUMBER_BOUNDS_INL_H
#else
#define PANDO_NUMBER_BOUNDS_INL_H
#endif

HWY_BEFORE_NAMESPACE();
namespace pando::cpu::HWY_NAMESPACE {

/// a where it is NaN; b must be a number.
template <class V>
HWY_INLINE V LargerOfNumber(V a, V b) {
  namespace hn = hwy::HWY_NAMESPACE;
#if HWY_ARCH_X86 && HWY_TARGET != HWY_SCALAR
  return hn::Max(b, a);  // the instruction gives its second operand for NaN
#else
  return hn::IfThenElse(hn::Lt(a, b), b, a);
#endif
}
template <class V>
HWY_INLINE V SmallerOfNumber(V a, V b) {
  namespace hn = hwy::HWY_NAMESPACE;
#if HWY_ARCH_X86 && HWY_TARGET != HWY_SCALAR
  return hn::Min(b, a);
#else
  return hn::IfThenElse(hn::Gt(a, b), b, a);
#endif
}

}  // namespace pando::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // PANDO_NUMBER_BOUNDS_INL_H
