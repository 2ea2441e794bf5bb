// Integer arithmetic that is defined for all operands.
#pragma once

#include <limits>
#include <type_traits>

namespace pando {

/// `value` truncated toward zero, at the ends of To's range where it lies outside; 0 for NaN.
template <class To, class From>
constexpr To saturated(From value) {
  using Limits = std::numeric_limits<To>;
  constexpr From kFirst = static_cast<From>(Limits::min());
  // The power of two after the largest value, which itself may not be a number of From.
  constexpr To kHalfOfEnd = Limits::max() / 2 + 1;
  constexpr From kEnd = From{2} * static_cast<From>(kHalfOfEnd);
  if (!(value == value)) return To{0};
  if (value < kFirst) return Limits::min();
  return value < kEnd ? static_cast<To>(value) : Limits::max();
}

/// base^exponent modulo 2^bits. With a negative exponent 1 and -1 keep their powers; others give 0.
template <class T>
constexpr T wrapped_power(T base, T exponent) {
  static_assert(sizeof(T) >= sizeof(int), "narrower words would be multiplied as int");
  using Word = std::make_unsigned_t<T>;
  if constexpr (std::is_signed_v<T>) {
    if (exponent < 0 && base == -1) return exponent % 2 == 0 ? T{1} : T{-1};
    if (exponent < 0) return base == 1 ? T{1} : T{0};
  }
  Word result = 1, square = static_cast<Word>(base);
  for (Word rest = static_cast<Word>(exponent); rest != 0; rest >>= 1) {
    if ((rest & 1) != 0) result *= square;
    square *= square;
  }
  return static_cast<T>(result);
}

}  // namespace pando
