// Exact conversions between float32 and the narrow float formats, rounding to nearest even.
//
// The float8 formats: 1-4-3 has exponent bias 8 and largest value 240, 1-5-2 has exponent bias 16
// and largest value 57344. Both have denormals, no infinity, no negative zero, and the one
// NaN code 0x80.
#pragma once

#include <cstddef>
#include <cstdint>

#include "pando/base/dtype.hpp"

namespace pando {

float half_to_float(std::uint16_t half);
/// Overflow gives infinity; NaN stays NaN (quiet).
std::uint16_t float_to_half(float value);

void halves_to_floats(const std::uint16_t* halves, float* floats, std::size_t count);
void floats_to_halves(const float* floats, std::uint16_t* halves, std::size_t count);

/// `format`: Float8_143 or Float8_152.
float float8_to_float(std::uint8_t code, DType format);
/// Overflow, infinities and NaN give the NaN code; with `saturate`, finite overflow gives the
/// largest value of the sign.
std::uint8_t float_to_float8(float value, DType format, bool saturate = false);

}  // namespace pando
