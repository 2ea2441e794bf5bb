// Activations applied to rows of a product. Included once per SIMD target.
#include <algorithm>
#include <cstdint>

#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"

#if defined(PANDO_ACTIVATION_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef PANDO_ACTIVATION_INL_H
#undef PANDO_ACTIVATION_INL_H
#else
#define PANDO_ACTIVATION_INL_H
#endif

#include "pando/backends/cpu/exp-inl.h"
#include "pando/backends/cpu/kernels/masked_load-inl.h"
#include "pando/backends/cpu/kernels/matmul.hpp"

// Without it GCC keeps arrays of vectors in memory.
#ifndef PANDO_UNROLL
#if defined(__clang__)
#define PANDO_UNROLL _Pragma("unroll")
#else
#define PANDO_UNROLL _Pragma("GCC unroll 16")
#endif
#endif

HWY_BEFORE_NAMESPACE();
namespace pando::cpu::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

using ActivationTag = hn::ScalableTag<float>;

template <class F>
HWY_INLINE void Activate(F f, float* out, std::int64_t count) {
  const ActivationTag d;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (std::int64_t i = 0; i < count; i += lanes) {
    const auto mask = hn::FirstN(d, static_cast<std::size_t>(std::min(lanes, count - i)));
    // Tanh loses NaN.
    const auto x = LoadFirst(mask, d, out + i);
    hn::BlendedStore(hn::IfThenElse(hn::IsNaN(x), x, f(d, x)), mask, d, out + i);
  }
}

inline void ApplyActivation(Activation activation, float* out, std::int64_t count) {
  switch (activation) {
    case Activation::None:
      return;
    case Activation::Relu:
      Activate([](ActivationTag d, hn::Vec<ActivationTag> x) HWY_ATTR { return hn::IfThenZeroElse(hn::Lt(x, hn::Zero(d)), x); }, out,
               count);
      return;
    case Activation::Tanh:
      Activate([](ActivationTag d, hn::Vec<ActivationTag> x) HWY_ATTR { return hn::Tanh(d, x); }, out, count);
      return;
    case Activation::Sigmoid:
      Activate([](ActivationTag d, hn::Vec<ActivationTag> x) HWY_ATTR { return SigmoidOf(d, x); }, out, count);
      return;
    case Activation::Swish:
      Activate([](ActivationTag d, hn::Vec<ActivationTag> x) HWY_ATTR { return hn::Mul(x, SigmoidOf(d, x)); }, out, count);
      return;
    case Activation::GeluTanh:
      Activate(
          [](ActivationTag d, hn::Vec<ActivationTag> x) HWY_ATTR {
            // 0.5 (1 + tanh u) is sigmoid(2 u).
            const auto cubic = hn::MulAdd(hn::Mul(hn::Mul(x, x), x), hn::Set(d, 0.044715f), x);
            return hn::Mul(x, SigmoidOf(d, hn::Mul(hn::Set(d, 1.5957691216057307f), cubic)));
          },
          out, count);
      return;
  }
}
}  // namespace
}  // namespace pando::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per target
