// e^x for x <= 0 in float32, where softmax and sigmoid need it, and sigmoid. Included once per SIMD
// target. fused/chain_functions.cpp has sigmoid op by op, with the same roundings.
#include <cstddef>
#include <iterator>

#include "hwy/highway.h"
#include "pando/backends/cpu/exp_constants.hpp"
#include "pando/backends/cpu/number_bounds-inl.h"

#if defined(PANDO_EXP_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef PANDO_EXP_INL_H
#undef PANDO_EXP_INL_H
#else
#define PANDO_EXP_INL_H
#endif

HWY_BEFORE_NAMESPACE();
namespace pando::cpu::HWY_NAMESPACE {

/// Within 2 ULP; 0 below the smallest normal number where denormal ones count as zero, NaN for NaN.
/// Half the work of the general function.
template <class D, class V = hwy::HWY_NAMESPACE::Vec<D>>
HWY_INLINE V ExpNonPositive(D d, V x) {
  namespace hn = hwy::HWY_NAMESPACE;
  using namespace exp_constants;
  const hn::RebindToSigned<D> integers;
  const V bounded = LargerOfNumber(x, hn::Set(d, kLowest));
  const V shift = hn::Set(d, kShift);
  const V shifted = hn::MulAdd(bounded, hn::Set(d, kLog2E), shift);
  const V n = hn::Sub(shifted, shift);
  const V r = hn::MulAdd(n, hn::Set(d, kMinusLn2Low),
                         hn::MulAdd(n, hn::Set(d, kMinusLn2High), bounded));
  V p = hn::Set(d, kPolynomial[0]);
  for (std::size_t i = 1; i < std::size(kPolynomial); ++i) {
    p = hn::MulAdd(p, r, hn::Set(d, kPolynomial[i]));
  }
  const V e = hn::Add(hn::MulAdd(hn::Mul(r, r), p, r), hn::Set(d, 1.0f));
  return hn::Mul(e, hn::BitCast(d, hn::ShiftLeft<kMantissaBits>(hn::BitCast(integers, shifted))));
}

/// 1 / (1 + e^-x), written with e^-|x| so that nothing overflows.
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
