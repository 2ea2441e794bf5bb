// What the scalar ops mean for one lane of any type: loops over these are the tile ops that no SIMD
// code replaces. Included once per SIMD target, so that the compiler vectorises them for it.
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "hwy/highway.h"
#include "pando/base/integers.hpp"

#if defined(PANDO_LANE_OPS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef PANDO_LANE_OPS_INL_H
#undef PANDO_LANE_OPS_INL_H
#else
#define PANDO_LANE_OPS_INL_H
#endif

HWY_BEFORE_NAMESPACE();
namespace pando::cpu::HWY_NAMESPACE {

template <class T>
constexpr bool kIsFloat = std::is_floating_point_v<T>;

/// Integers wrap: their arithmetic is that of the unsigned type.
template <class T, bool = kIsFloat<T>>
struct ArithmeticType {
  using Type = T;
};
template <class T>
struct ArithmeticType<T, false> {
  using Type = std::make_unsigned_t<T>;
};
template <class T>
using Arithmetic = typename ArithmeticType<T>::Type;

template <class T>
HWY_INLINE T Negated(T a) {
  return static_cast<T>(Arithmetic<T>{0} - static_cast<Arithmetic<T>>(a));
}

#define PANDO_LANE_OP(name)                                                     \
  struct name##Lane {                                                           \
    template <class T>                                                          \
    static HWY_INLINE auto Apply(T a, T b, T c);                                \
  };                                                                            \
  template <class T>                                                            \
  HWY_INLINE auto name##Lane::Apply([[maybe_unused]] T a, [[maybe_unused]] T b, \
                                    [[maybe_unused]] T c)
#define PANDO_WRAP(a, op, b) \
  static_cast<T>(static_cast<Arithmetic<T>>(a) op static_cast<Arithmetic<T>>(b))

PANDO_LANE_OP(Add) { return PANDO_WRAP(a, +, b); }
PANDO_LANE_OP(Sub) { return PANDO_WRAP(a, -, b); }
PANDO_LANE_OP(Mul) { return PANDO_WRAP(a, *, b); }
PANDO_LANE_OP(Div) {
  if constexpr (kIsFloat<T>) {
    return a / b;
  } else {
    if (b == 0) return T{0};
    if constexpr (std::is_signed_v<T>) {
      if (b == -1) return Negated(a);  // the quotient of the smallest value would overflow
    }
    return static_cast<T>(a / b);
  }
}
PANDO_LANE_OP(Rem) {
  if constexpr (kIsFloat<T>) {
    return std::fmod(a, b);
  } else {
    if (b == 0) return T{0};
    if constexpr (std::is_signed_v<T>) {
      if (b == -1) return T{0};
    }
    return static_cast<T>(a % b);
  }
}
PANDO_LANE_OP(Fma) {
  if constexpr (kIsFloat<T>) {
    return std::fma(a, b, c);
  } else {
    return PANDO_WRAP(PANDO_WRAP(a, *, b), +, c);
  }
}
PANDO_LANE_OP(Min) { return a != a ? a : (a < b ? a : b); }
PANDO_LANE_OP(Max) { return a != a ? a : (a > b ? a : b); }
PANDO_LANE_OP(Neg) {
  if constexpr (kIsFloat<T>) {
    return -a;
  } else {
    return Negated(a);
  }
}
PANDO_LANE_OP(Abs) {
  if constexpr (kIsFloat<T>) {
    return std::fabs(a);
  } else {
    return a < T{0} ? Negated(a) : a;
  }
}
PANDO_LANE_OP(Sign) { return a != a ? a : static_cast<T>((T{0} < a) - (a < T{0})); }
PANDO_LANE_OP(Floor) {
  if constexpr (kIsFloat<T>) return std::floor(a);
  return a;
}
PANDO_LANE_OP(Ceil) {
  if constexpr (kIsFloat<T>) return std::ceil(a);
  return a;
}
PANDO_LANE_OP(RoundEven) {
  if constexpr (kIsFloat<T>) return std::nearbyint(a);
  return a;
}
PANDO_LANE_OP(Equal) { return a == b ? std::int32_t{1} : std::int32_t{0}; }
PANDO_LANE_OP(Less) { return a < b ? std::int32_t{1} : std::int32_t{0}; }
PANDO_LANE_OP(LessEqual) { return a <= b ? std::int32_t{1} : std::int32_t{0}; }
PANDO_LANE_OP(IsNan) { return a != a ? std::int32_t{1} : std::int32_t{0}; }
PANDO_LANE_OP(IsInf) {
  if constexpr (kIsFloat<T>) return std::isinf(a) ? std::int32_t{1} : std::int32_t{0};
  return std::int32_t{0};
}
// Integers only.
PANDO_LANE_OP(And) { return static_cast<T>(a & b); }
PANDO_LANE_OP(Or) { return static_cast<T>(a | b); }
PANDO_LANE_OP(Xor) { return static_cast<T>(a ^ b); }
// Floats only, but for Pow.
PANDO_LANE_OP(Exp) { return std::exp(a); }
PANDO_LANE_OP(Log) { return std::log(a); }
PANDO_LANE_OP(Sqrt) { return std::sqrt(a); }
PANDO_LANE_OP(Tanh) { return std::tanh(a); }
PANDO_LANE_OP(Erf) { return std::erf(a); }
PANDO_LANE_OP(Erfc) { return std::erfc(a); }
PANDO_LANE_OP(Log1p) { return std::log1p(a); }
PANDO_LANE_OP(Expm1) { return std::expm1(a); }
PANDO_LANE_OP(Atan) { return std::atan(a); }
PANDO_LANE_OP(Sin) { return std::sin(a); }
PANDO_LANE_OP(Cos) { return std::cos(a); }
PANDO_LANE_OP(Sigmoid) {
  const T e = std::exp(-std::fabs(a));
  return (a < 0 ? e : T{1}) / (1 + e);
}
PANDO_LANE_OP(Pow) {
  if constexpr (kIsFloat<T>) {
    // In double: the error of a float32 logarithm would grow with the exponent.
    return static_cast<T>(std::pow(static_cast<double>(a), static_cast<double>(b)));
  } else {
    return wrapped_power(a, b);
  }
}
#undef PANDO_WRAP
#undef PANDO_LANE_OP

}  // namespace pando::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // PANDO_LANE_OPS_INL_H
