// Exact conversions between float32 and the narrow float formats, rounding to nearest even.
//
// The float8 formats: 1-4-3 has exponent bias 8 and largest value 240, 1-5-2 has exponent bias 16
// and largest value 57344. Both have denormals, no infinity, no negative zero, and the one
// NaN code 0x80.
#pragma once

#include <bit>
#include <cstdint>

#include "pando/base/dtype.hpp"

namespace pando {

float half_to_float(std::uint16_t half);
/// Overflow gives infinity; NaN stays NaN (quiet).
std::uint16_t float_to_half(float value);

/// bfloat16 is the upper half of a float32.
constexpr float bfloat16_to_float(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}
/// Overflow gives infinity; NaN stays NaN (quiet, with its sign and upper bits).
constexpr std::uint16_t float_to_bfloat16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<std::uint16_t>(bits >> 16 | 0x40u);
  return static_cast<std::uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

/// `format`: Float16 or BFloat16.
inline float half_precision_to_float(std::uint16_t bits, DType format) {
  return format == DType::Float16 ? half_to_float(bits) : bfloat16_to_float(bits);
}
inline std::uint16_t float_to_half_precision(float value, DType format) {
  return format == DType::Float16 ? float_to_half(value) : float_to_bfloat16(value);
}
/// `value` as it reads back from the format.
inline float rounded_to_half_precision(float value, DType format) {
  return half_precision_to_float(float_to_half_precision(value, format), format);
}

/// `format`: Float8_143 or Float8_152.
float float8_to_float(std::uint8_t code, DType format);
/// Overflow, infinities and NaN give the NaN code; with `saturate`, finite overflow gives the
/// largest value of the sign.
std::uint8_t float_to_float8(float value, DType format, bool saturate = false);

}  // namespace pando
