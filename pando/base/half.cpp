#include "pando/base/half.hpp"

#include <bit>
#include <cmath>

namespace pando {
namespace {

constexpr std::uint8_t kFloat8Nan = 0x80;

struct Float8Format {
  int mantissa_bits;
  int bias;
  float largest;
};

constexpr Float8Format float8_format(DType dtype) {
  return dtype == DType::Float8_143 ? Float8Format{3, 8, 240.0f} : Float8Format{2, 16, 57344.0f};
}

}  // namespace

float half_to_float(std::uint16_t half) {
  const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000u) << 16;
  const std::uint32_t exponent = (half >> 10) & 0x1fu;
  const std::uint32_t mantissa = half & 0x3ffu;
  if (exponent == 0x1f) {
    const std::uint32_t quiet = mantissa != 0 ? 0x400000u : 0u;
    return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13) | quiet);
  }
  if (exponent == 0) {
    const float magnitude = std::ldexp(static_cast<float>(mantissa), -24);
    return sign != 0 ? -magnitude : magnitude;
  }
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
}

std::uint16_t float_to_half(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000u);
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) {
    return static_cast<std::uint16_t>(sign | 0x7e00u | ((magnitude >> 13) & 0x3ffu));
  }
  if (magnitude >= 0x477ff000u) return sign | 0x7c00u;  // 65520 and above round to infinity
  if (magnitude < 0x38800000u) {
    // Denormal: adding 0.5 aligns the mantissa so that the hardware rounds to nearest even.
    const float aligned = std::bit_cast<float>(magnitude) + 0.5f;
    return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(aligned) & 0x7ffu));
  }
  const std::uint32_t odd = (magnitude >> 13) & 1u;
  const std::uint32_t rounded = magnitude - (112u << 23) + 0xfffu + odd;
  return static_cast<std::uint16_t>(sign | (rounded >> 13));
}

float float8_to_float(std::uint8_t code, DType format) {
  if (code == kFloat8Nan) return std::nanf("");
  const Float8Format f = float8_format(format);
  const int mantissa = code & ((1 << f.mantissa_bits) - 1);
  const int exponent = (code & 0x7f) >> f.mantissa_bits;
  const int fraction = exponent == 0 ? mantissa : mantissa + (1 << f.mantissa_bits);
  const int scale = (exponent == 0 ? 1 : exponent) - f.bias - f.mantissa_bits;
  const float magnitude = std::ldexp(static_cast<float>(fraction), scale);
  return (code & 0x80) != 0 ? -magnitude : magnitude;
}

std::uint8_t float_to_float8(float value, DType format, bool saturate) {
  const Float8Format f = float8_format(format);
  if (!std::isfinite(value)) return kFloat8Nan;
  const std::uint8_t sign = std::signbit(value) ? 0x80 : 0;
  const float magnitude = std::fabs(value);
  if (magnitude == 0.0f) return 0;
  int exponent = 0;
  std::frexp(magnitude, &exponent);  // magnitude in [0.5, 1) * 2^exponent
  const int lowest = 1 - f.bias;
  const int unit = (exponent - 1 < lowest ? lowest : exponent - 1) - f.mantissa_bits;
  const float rounded = std::ldexp(std::nearbyint(std::ldexp(magnitude, -unit)), unit);
  if (rounded > f.largest) {
    return saturate ? static_cast<std::uint8_t>(sign | 0x7f) : kFloat8Nan;
  }
  if (rounded == 0.0f) return 0;
  std::frexp(rounded, &exponent);
  const int biased = exponent - 1 + f.bias;
  const int fraction_exponent = (biased < 1 ? lowest : exponent - 1) - f.mantissa_bits;
  const int fraction = static_cast<int>(std::ldexp(rounded, -fraction_exponent));
  const int code =
      biased < 1 ? fraction : (biased << f.mantissa_bits) + fraction - (1 << f.mantissa_bits);
  return static_cast<std::uint8_t>(sign | code);
}

}  // namespace pando
