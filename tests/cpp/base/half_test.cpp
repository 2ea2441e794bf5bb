// Narrow floats against their definition, evaluated in double.
#include "pando/base/half.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

namespace pando {
namespace {

/// (-1)^sign * 2^(e - bias) * (1 + m / 2^bits), or 2^(1 - bias) * m / 2^bits where e is 0.
double value_of(int code, int mantissa_bits, int bias) {
  const int mantissa = code & ((1 << mantissa_bits) - 1);
  const int exponent = code >> mantissa_bits;
  const double fraction = mantissa / static_cast<double>(1 << mantissa_bits);
  return exponent == 0 ? std::ldexp(fraction, 1 - bias) : std::ldexp(1 + fraction, exponent - bias);
}

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

/// Checks the conversion around every value and every midpoint between neighbours 0..largest.
template <class Narrow>
void check_rounding(int largest, int mantissa_bits, int bias, Narrow narrow) {
  for (int code = 0; code <= largest; ++code) {
    const double value = value_of(code, mantissa_bits, bias);
    ASSERT_EQ(narrow(static_cast<float>(value)), code);
    if (code == largest) break;
    const double middle = (value + value_of(code + 1, mantissa_bits, bias)) / 2;
    const auto exact = static_cast<float>(middle);
    ASSERT_EQ(static_cast<double>(exact), middle);
    ASSERT_EQ(narrow(exact), code + code % 2) << code;
    ASSERT_EQ(narrow(std::nextafter(exact, 0.0f)), code) << code;
    ASSERT_EQ(narrow(std::nextafter(exact, kInfinity)), code + 1) << code;
  }
}

TEST(Half, EveryFloat16HasTheValueOfItsDefinition) {
  for (int code = 0; code < 0x7c00; ++code) {
    const double value = value_of(code, 10, 15);
    ASSERT_EQ(half_to_float(static_cast<std::uint16_t>(code)), value) << code;
    ASSERT_EQ(half_to_float(static_cast<std::uint16_t>(code | 0x8000)), -value) << code;
  }
  EXPECT_TRUE(std::signbit(half_to_float(0x8000)));
  EXPECT_EQ(half_to_float(0x7c00), kInfinity);
  EXPECT_EQ(half_to_float(0xfc00), -kInfinity);
  for (int code = 0x7c01; code < 0x8000; ++code) {
    ASSERT_TRUE(std::isnan(half_to_float(static_cast<std::uint16_t>(code))));
    const std::uint16_t back = float_to_half(half_to_float(static_cast<std::uint16_t>(code)));
    ASSERT_EQ(back, code | 0x200);  // quiet, same payload
  }
}

TEST(Half, Float16RoundsToNearestEven) {
  check_rounding(0x7bff, 10, 15, [](float v) {
    EXPECT_EQ(float_to_half(-v), float_to_half(v) | 0x8000);
    return float_to_half(v);
  });
  EXPECT_EQ(float_to_half(65519.99f), 0x7bff);
  EXPECT_EQ(float_to_half(65520.0f), 0x7c00);
  EXPECT_EQ(float_to_half(std::numeric_limits<float>::max()), 0x7c00);
  EXPECT_EQ(float_to_half(-kInfinity), 0xfc00);
  EXPECT_EQ(float_to_half(std::numeric_limits<float>::denorm_min()), 0);
}

TEST(Half, EveryBFloat16HasTheValueOfItsDefinition) {
  for (int code = 0; code < 0x7f80; ++code) {
    const double value = value_of(code, 7, 127);
    ASSERT_EQ(bfloat16_to_float(static_cast<std::uint16_t>(code)), value) << code;
    ASSERT_EQ(bfloat16_to_float(static_cast<std::uint16_t>(code | 0x8000)), -value) << code;
  }
  EXPECT_TRUE(std::signbit(bfloat16_to_float(0x8000)));
  EXPECT_EQ(bfloat16_to_float(0x7f80), kInfinity);
  EXPECT_EQ(bfloat16_to_float(0xff80), -kInfinity);
  for (int code = 0x7f81; code < 0x8000; ++code) {
    const float value = bfloat16_to_float(static_cast<std::uint16_t>(code));
    ASSERT_TRUE(std::isnan(value));
    ASSERT_EQ(float_to_bfloat16(value), code | 0x40);  // quiet, same payload
  }
  // A payload that only the lower half has.
  EXPECT_EQ(float_to_bfloat16(std::bit_cast<float>(0x7f800001u)), 0x7fc0);
  EXPECT_EQ(float_to_bfloat16(std::bit_cast<float>(0xffffffffu)), 0xffff);
}

TEST(Half, BFloat16RoundsToNearestEven) {
  check_rounding(0x7f7f, 7, 127, [](float v) {
    EXPECT_EQ(float_to_bfloat16(-v), float_to_bfloat16(v) | 0x8000);
    return float_to_bfloat16(v);
  });
  const float overflow = std::bit_cast<float>(0x7f7f8000u);  // half a step above the largest
  EXPECT_EQ(float_to_bfloat16(std::nextafter(overflow, 0.0f)), 0x7f7f);
  EXPECT_EQ(float_to_bfloat16(overflow), 0x7f80);
  EXPECT_EQ(float_to_bfloat16(std::numeric_limits<float>::max()), 0x7f80);
  EXPECT_EQ(float_to_bfloat16(-kInfinity), 0xff80);
  EXPECT_EQ(float_to_bfloat16(std::numeric_limits<float>::denorm_min()), 0);
}

struct Format {
  DType dtype;
  int mantissa_bits;
  int bias;
  float largest;
};

class Float8 : public ::testing::TestWithParam<Format> {};

TEST_P(Float8, EveryCodeHasTheValueOfItsDefinition) {
  const Format f = GetParam();
  for (int code = 0; code < 0x80; ++code) {
    const double value = value_of(code, f.mantissa_bits, f.bias);
    ASSERT_EQ(float8_to_float(static_cast<std::uint8_t>(code), f.dtype), value) << code;
    if (code == 0) continue;
    ASSERT_EQ(float8_to_float(static_cast<std::uint8_t>(code | 0x80), f.dtype), -value) << code;
  }
  EXPECT_TRUE(std::isnan(float8_to_float(0x80, f.dtype)));
  EXPECT_EQ(float8_to_float(0x7f, f.dtype), f.largest);
}

TEST_P(Float8, RoundsToNearestEven) {
  const Format f = GetParam();
  check_rounding(0x7f, f.mantissa_bits, f.bias, [&](float v) {
    const std::uint8_t code = float_to_float8(v, f.dtype);
    EXPECT_EQ(float_to_float8(-v, f.dtype), code == 0 ? 0 : code | 0x80);
    return code;
  });
}

TEST_P(Float8, OverflowGivesNanOrTheLargestValue) {
  const Format f = GetParam();
  const auto unit = static_cast<float>(std::ldexp(1.0, std::ilogb(f.largest) - f.mantissa_bits));
  const float edge = f.largest + unit / 2;  // rounds to even, which is above the largest value
  EXPECT_EQ(float_to_float8(std::nextafter(edge, 0.0f), f.dtype), 0x7f);
  EXPECT_EQ(float_to_float8(edge, f.dtype), 0x80);
  EXPECT_EQ(float_to_float8(edge, f.dtype, true), 0x7f);
  EXPECT_EQ(float_to_float8(-1e30f, f.dtype), 0x80);
  EXPECT_EQ(float_to_float8(-1e30f, f.dtype, true), 0xff);
  for (float v : {kInfinity, -kInfinity, kNan}) {
    EXPECT_EQ(float_to_float8(v, f.dtype), 0x80);
    EXPECT_EQ(float_to_float8(v, f.dtype, true), 0x80);
  }
  EXPECT_EQ(float_to_float8(-0.0f, f.dtype), 0);
}

INSTANTIATE_TEST_SUITE_P(Formats, Float8,
                         ::testing::Values(Format{DType::Float8_143, 3, 8, 240.0f},
                                           Format{DType::Float8_152, 2, 16, 57344.0f}),
                         [](const auto& format) {
                           return std::string(dtype_name(format.param.dtype));
                         });

}  // namespace
}  // namespace pando
