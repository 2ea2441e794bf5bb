// float32 functions of vectors, every input included. Included once per SIMD target.
//
// Bounds (tests sweep them): Exp 1 ULP, Log, Sin, Cos, Tanh, Sigmoid, Erf, Pow, Log1p,
// Expm1, Atan 4 ULP, Erfc 6 ULP.
// Erf, Erfc: least-squares fits of ours on Chebyshev points, reweighted towards the largest error.
#include <cmath>
#include <limits>

#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"
#include "pando/backends/cpu/exp-inl.h"

#if defined(PANDO_FLOAT_MATH_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef PANDO_FLOAT_MATH_INL_H
#undef PANDO_FLOAT_MATH_INL_H
#else
#define PANDO_FLOAT_MATH_INL_H
#endif

HWY_BEFORE_NAMESPACE();
namespace pando::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

/// `result`, NaN where x is NaN.
HWY_INLINE V KeepNan(V x, V result) { return hn::IfThenElse(hn::Eq(x, x), result, x); }

template <std::size_t N>
HWY_INLINE V Polynomial(V x, const float (&coefficients)[N]) {
  const D d;
  V sum = hn::Set(d, coefficients[N - 1]);
  for (std::size_t i = N - 1; i-- > 0;) sum = hn::MulAdd(sum, x, hn::Set(d, coefficients[i]));
  return sum;
}

HWY_INLINE V ExpF(V x) {
  const D d;
  // Above 104 the approximation leaves its range; there and at 104 it is infinite.
  return KeepNan(x, hn::Exp(d, hn::Min(x, hn::Set(d, 104.0f))));
}

HWY_INLINE V LogF(V x) {
  const D d;
  const V infinity = hn::Set(d, std::numeric_limits<float>::infinity());
  const V zero = hn::Zero(d);
  V result = hn::Log(d, x);
  result = hn::IfThenElse(hn::Eq(x, zero), hn::Neg(infinity), result);
  result = hn::IfThenElse(hn::Eq(x, infinity), infinity, result);
  const V nan = hn::Set(d, std::numeric_limits<float>::quiet_NaN());
  return KeepNan(x, hn::IfThenElse(hn::Lt(x, zero), nan, result));
}

HWY_INLINE V Log1pF(V x) {
  const D d;
  const V infinity = hn::Set(d, std::numeric_limits<float>::infinity());
  const V minus_one = hn::Set(d, -1.0f);
  V result = hn::Log1p(d, x);
  result = hn::IfThenElse(hn::Eq(x, minus_one), hn::Neg(infinity), result);
  result = hn::IfThenElse(hn::Eq(x, infinity), infinity, result);
  const V nan = hn::Set(d, std::numeric_limits<float>::quiet_NaN());
  return KeepNan(x, hn::IfThenElse(hn::Lt(x, minus_one), nan, result));
}

/// As ExpF; the sign of zero is that of x.
HWY_INLINE V Expm1F(V x) {
  const D d;
  const V result = hn::Expm1(d, hn::Min(x, hn::Set(d, 104.0f)));
  return KeepNan(x, hn::CopySign(result, x));
}

HWY_INLINE V AtanF(V x) { return KeepNan(x, hn::Atan(D(), x)); }

/// |x| < 0.625: x + x^3 P(x^2), the polynomial of Cephes' tanhf (Moshier, 1987); above:
/// (1 - e^-2|x|) / (1 + e^-2|x|).
HWY_INLINE V TanhF(V x) {
  static constexpr float kSmall[] = {-3.33332819422e-1f, 1.33314422036e-1f, -5.37397155531e-2f,
                                     2.06390887954e-2f, -5.70498872745e-3f};
  const D d;
  const V one = hn::Set(d, 1.0f);
  const V magnitude = hn::Abs(x);
  const V square = hn::Mul(x, x);
  const V small = hn::MulAdd(hn::Mul(Polynomial(square, kSmall), square), x, x);
  const V e = ExpNonPositive(d, hn::Mul(magnitude, hn::Set(d, -2.0f)));
  const V large = hn::CopySign(hn::Div(hn::Sub(one, e), hn::Add(one, e)), x);
  return hn::IfThenElse(hn::Lt(magnitude, hn::Set(d, 0.625f)), small, large);
}

HWY_INLINE V SigmoidF(V x) { return SigmoidOf(D(), x); }

/// |x| < 1: x * P(x^2); above: 1 - e^Q(|x|), as erfc is small there and its error counts little.
HWY_INLINE V ErfF(V x) {
  static constexpr float kSmall[] = {0x1.20dd76p+0f,  -0x1.812746p-2f, 0x1.ce2f08p-4f,
                                     -0x1.b829a8p-6f, 0x1.5628eep-8f,  -0x1.bcbe9ap-11f,
                                     0x1.d8268ep-14f, -0x1.4383fcp-17f};
  static constexpr float kLarge[] = {0x1.8b506fp-13f, -0x1.212c2fp+0f, -0x1.4434e8p-1f,
                                     -0x1.bc191ap-4f, 0x1.9d0c88p-6f,  -0x1.1399f7p-8f,
                                     0x1.ceedf8p-12f, -0x1.6c0a7dp-16f};
  const D d;
  const V magnitude = hn::Abs(x);
  const V small = hn::Mul(x, Polynomial(hn::Mul(x, x), kSmall));
  const V clamped = hn::Min(magnitude, hn::Set(d, 3.95f));
  const V one = hn::Set(d, 1.0f);
  const V large = hn::Sub(one, hn::Exp(d, Polynomial(clamped, kLarge)));
  const V value = hn::IfThenElse(hn::Lt(magnitude, one), small, hn::CopySign(large, x));
  return KeepNan(x, value);
}

/// e^(-z^2) R(z) for z = |x|, the first factor with the rounding error of z^2 made good and the
/// second a polynomial in (z - 3) / (z + 3) over z + 3; 2 less that for negative x.
HWY_INLINE V ErfcF(V x) {
  static constexpr float kScaled[] = {
      0x1.12f21ep+0f,  -0x1.c44c48p-1f,  0x1.2e3268p-1f, -0x1.3deadp-2f,   0x1.e9972ap-4f,
      -0x1.b7bcfep-6f, -0x1.4146cep-10f, 0x1.93b242p-9f, -0x1.fc6930p-12f, -0x1.560cf6p-12f};
  const D d;
  // From here on the result is below the smallest float.
  const V z = hn::Min(hn::Abs(x), hn::Set(d, 10.06f));
  const V three = hn::Set(d, 3.0f);
  const V one = hn::Set(d, 1.0f);
  const V reciprocal = hn::Div(one, hn::Add(z, three));
  const V scaled = hn::Mul(Polynomial(hn::Mul(hn::Sub(z, three), reciprocal), kScaled), reciprocal);
  const V square = hn::Mul(z, z);
  // z^2 - square, exactly on machines without fused products too: the upper half of z has 12 bits.
  const V high = hn::And(z, hn::BitCast(d, hn::Set(hn::RebindToUnsigned<D>(), 0xFFFFF000u)));
  const V low = hn::Sub(z, high);
  const V rest = hn::MulAdd(low, hn::Add(z, high), hn::Sub(hn::Mul(high, high), square));
  const V gauss = hn::Exp(d, hn::Neg(square));
  const V tail = hn::Mul(hn::NegMulAdd(gauss, rest, gauss), scaled);
  const V value = hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Sub(hn::Set(d, 2.0f), tail), tail);
  return KeepNan(x, value);
}

/// Highway's range reduction holds up to 39000.
constexpr float kTrigonometricRange = 39000.0f;

/// `inside` where it holds, `function` of the other lanes: what a lane gives does not depend on its
/// neighbours, some of which may be no data at all.
template <class Function>
HWY_INLINE V OutsideTrigonometricRange(V x, V inside, Function function) {
  const D d;
  const auto in_range = hn::Lt(hn::Abs(x), hn::Set(d, kTrigonometricRange));
  if (HWY_LIKELY(hn::AllTrue(d, in_range))) return inside;
  HWY_ALIGN float lanes[hn::MaxLanes(D())];
  hn::Store(x, d, lanes);
  for (float& lane : lanes) lane = function(lane);
  return hn::IfThenElse(in_range, inside, hn::Load(d, lanes));
}
HWY_INLINE V SinF(V x) {
  return OutsideTrigonometricRange(x, hn::Sin(D(), x), [](float lane) { return std::sin(lane); });
}
HWY_INLINE V CosF(V x) {
  return OutsideTrigonometricRange(x, hn::Cos(D(), x), [](float lane) { return std::cos(lane); });
}

}  // namespace pando::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // PANDO_FLOAT_MATH_INL_H
