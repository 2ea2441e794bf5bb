// e^x for x <= 0 in float32, where softmax and sigmoid need it, and sigmoid. Included once per SIMD
// target.
#include "hwy/highway.h"

#if defined(PANDO_EXP_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef PANDO_EXP_INL_H
#undef PANDO_EXP_INL_H
#else
#define PANDO_EXP_INL_H
#endif

HWY_BEFORE_NAMESPACE();
namespace pando::cpu::HWY_NAMESPACE {

/// Within 2 ULP; 0 where the result would be denormal, NaN for NaN. Half the work of the general
/// function. x = n ln 2 + r with |r| <= ln(2) / 2, ln 2 in two parts; the polynomial of e^r is that
/// of Cephes' expf (Moshier, 1987).
template <class D, class V = hwy::HWY_NAMESPACE::Vec<D>>
HWY_INLINE V ExpNonPositive(D d, V x) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::RebindToSigned<D> integers;
  // Added to n, it leaves the biased exponent n + 127 in the low bits.
  const V shift = hn::Set(d, 12582912.0f + 127.0f);
  const V shifted = hn::MulAdd(x, hn::Set(d, 1.44269504f), shift);
  const V n = hn::Sub(shifted, shift);
  const V r = hn::NegMulAdd(n, hn::Set(d, -2.12194440e-4f),
                            hn::NegMulAdd(n, hn::Set(d, 0.693359375f), x));
  V p = hn::Set(d, 1.9875691500e-4f);
  p = hn::MulAdd(p, r, hn::Set(d, 1.3981999507e-3f));
  p = hn::MulAdd(p, r, hn::Set(d, 8.3334519073e-3f));
  p = hn::MulAdd(p, r, hn::Set(d, 4.1665795894e-2f));
  p = hn::MulAdd(p, r, hn::Set(d, 1.6666665459e-1f));
  p = hn::MulAdd(p, r, hn::Set(d, 5.0000001201e-1f));
  const V e = hn::Add(hn::MulAdd(hn::Mul(r, r), p, r), hn::Set(d, 1.0f));
  const V scale = hn::BitCast(d, hn::ShiftLeft<23>(hn::BitCast(integers, shifted)));
  return hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, -87.336544f)), hn::Mul(e, scale));
}

/// 1 / (1 + e^-x), written with e^-|x| so that nothing overflows. 0 below the smallest normal
/// number.
template <class D, class V = hwy::HWY_NAMESPACE::Vec<D>>
HWY_INLINE V SigmoidOf(D d, V x) {
  namespace hn = hwy::HWY_NAMESPACE;
  const V one = hn::Set(d, 1.0f);
  const V e = ExpNonPositive(d, hn::Or(x, hn::Set(d, -0.0f)));
  return hn::Div(hn::IfNegativeThenElse(x, e, one), hn::Add(one, e));
}

}  // namespace pando::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // PANDO_EXP_INL_H
