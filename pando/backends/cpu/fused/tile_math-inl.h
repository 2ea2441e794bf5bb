// SIMD functions of the fused machine that Highway does not have. Included once per SIMD target.
//
// The rational approximations are least-squares fits of ours on Chebyshev points, reweighted
// towards the largest relative error.
#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"

#if defined(PANDO_TILE_MATH_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef PANDO_TILE_MATH_INL_H
#undef PANDO_TILE_MATH_INL_H
#else
#define PANDO_TILE_MATH_INL_H
#endif

HWY_BEFORE_NAMESPACE();
namespace pando::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class D, class V, std::size_t N>
HWY_INLINE V Polynomial(D d, V z, const float (&coefficients)[N]) {
  V result = hn::Set(d, coefficients[N - 1]);
  for (std::size_t i = N - 1; i-- > 0;) {
    result = hn::MulAdd(result, z, hn::Set(d, coefficients[i]));
  }
  return result;
}

/// <= 6 ULP; NaN gives NaN.
template <class D, class V>
HWY_INLINE V TanhF32(D d, V x) {
  static constexpr float kP[] = {0x1.0000000p+0f, 0x1.182a3cp-3f,  0x1.fb0828p-9f,
                                 0x1.d5e4a6p-16f, 0x1.06baf0p-25f, -0x1.ad63f4p-37f};
  static constexpr float kQ[] = {0x1.0000000p+0f, 0x1.e16a72p-2f, 0x1.be659ep-6f, 0x1.9cffaep-12f,
                                 0x1.5994d2p-20f};
  const V limit = hn::Set(d, 9.02f);
  const V clamped = hn::Max(hn::Min(x, limit), hn::Neg(limit));
  const V z = hn::Mul(clamped, clamped);
  const V y = hn::Div(hn::Mul(clamped, Polynomial(d, z, kP)), Polynomial(d, z, kQ));
  const V one = hn::Set(d, 1.0f);
  // Exactly +-1 beyond the limit: users multiply 1 - |y| by x.
  const V bounded = hn::Max(hn::Min(y, one), hn::Neg(one));
  const V result = hn::IfThenElse(hn::Lt(hn::Abs(x), limit), bounded, hn::CopySign(one, x));
  return hn::IfThenElse(hn::Eq(x, x), result, x);
}

/// <= 6 ULP; NaN gives NaN.
template <class D, class V>
HWY_INLINE V ErfF32(D d, V x) {
  static constexpr float kP[] = {0x1.20dd76p+0f,  0x1.7b289ep-3f,  0x1.bc5de0p-5f,  0x1.f7236ep-9f,
                                 0x1.8b0e70p-12f, 0x1.354feep-18f, -0x1.b7c70ep-27f};
  static constexpr float kQ[] = {0x1.000000p+0f, 0x1.fd57fep-2f,  0x1.d26d88p-4f,
                                 0x1.f99cd2p-7f, 0x1.552fc6p-10f, 0x1.05b75ep-14f};
  const V limit = hn::Set(d, 3.92f);
  const V clamped = hn::Max(hn::Min(x, limit), hn::Neg(limit));
  const V z = hn::Mul(clamped, clamped);
  const V y = hn::Div(hn::Mul(clamped, Polynomial(d, z, kP)), Polynomial(d, z, kQ));
  const V one = hn::Set(d, 1.0f);
  // Exactly +-1 beyond the limit: users multiply 1 - |y| by x.
  const V bounded = hn::Max(hn::Min(y, one), hn::Neg(one));
  const V result = hn::IfThenElse(hn::Lt(hn::Abs(x), limit), bounded, hn::CopySign(one, x));
  return hn::IfThenElse(hn::Eq(x, x), result, x);
}

/// exp over the whole range: infinities, NaN and denormal results included.
template <class D, class V>
HWY_INLINE V ExpF32(D d, V x) {
  const V y = hn::Exp(d, hn::Min(x, hn::Set(d, 88.7228f)));
  const V infinity = hn::Set(d, std::numeric_limits<float>::infinity());
  const V high = hn::IfThenElse(hn::Gt(x, hn::Set(d, 88.722839f)), infinity, y);
  return hn::IfThenElse(hn::Eq(x, x), high, x);
}

/// 1 / (1 + exp(-x)), <= 6 ULP. Below -88.7 the exact value is a denormal or zero.
template <class D, class V>
HWY_INLINE V SigmoidF32(D d, V x) {
  const V one = hn::Set(d, 1.0f);
  return hn::Div(one, hn::Add(one, ExpF32(d, hn::Neg(x))));
}

/// log with log(0) = -inf, log(negative) = NaN, log(inf) = inf.
template <class D, class V>
HWY_INLINE V LogF32(D d, V x) {
  const V infinity = hn::Set(d, std::numeric_limits<float>::infinity());
  const V y = hn::Log(d, x);
  const V zero = hn::Zero(d);
  const V at_zero = hn::IfThenElse(hn::Eq(x, zero), hn::Neg(infinity), y);
  const V at_inf = hn::IfThenElse(hn::Eq(x, infinity), infinity, at_zero);
  const V nan = hn::Set(d, std::numeric_limits<float>::quiet_NaN());
  const V negative = hn::IfThenElse(hn::Lt(x, zero), nan, at_inf);
  return hn::IfThenElse(hn::Eq(x, x), negative, x);
}

/// float32 rounded to float16 precision, to nearest even.
template <class D, class V>
HWY_INLINE V RoundToHalf(D d, V x) {
  const hn::Rebind<hwy::float16_t, D> half;
  return hn::PromoteTo(d, hn::DemoteTo(half, x));
}

}  // namespace pando::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // PANDO_TILE_MATH_INL_H
