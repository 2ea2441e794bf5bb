// Element types as C++ types for kernels written once for all dtypes.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>

#include "pando/backends/cpu/kernels/half_rows.hpp"
#include "pando/base/dtype.hpp"
#include "pando/base/error.hpp"
#include "pando/base/half.hpp"

namespace pando::cpu {

/// Storage of float16 or bfloat16; arithmetic happens in float.
template <DType kFormat>
struct HalfPrecision {
  static constexpr DType kDType = kFormat;
  std::uint16_t bits = 0;

  HalfPrecision() = default;
  explicit HalfPrecision(float value) : bits(float_to_half_precision(value, kFormat)) {}
  explicit HalfPrecision(double value) : HalfPrecision(static_cast<float>(value)) {}
  explicit HalfPrecision(int value) : HalfPrecision(static_cast<float>(value)) {}
  operator float() const { return half_precision_to_float(bits, kFormat); }
};
using Half = HalfPrecision<DType::Float16>;
using BFloat16 = HalfPrecision<DType::BFloat16>;
static_assert(sizeof(Half) == 2 && sizeof(BFloat16) == 2);

template <class T>
inline constexpr bool kIsHalfPrecision = std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>;

template <class T>
inline constexpr bool kIsFloatElement = std::is_floating_point_v<T> || kIsHalfPrecision<T>;

/// The type in which values of T are computed: half precision in float, the others in themselves.
template <class T>
using Compute = std::conditional_t<kIsHalfPrecision<T>, float, T>;

template <DType kFormat>
void to_floats(const HalfPrecision<kFormat>* from, float* to, std::size_t count) {
  half_precision_to_floats(kFormat, &from->bits, to, count);
}
template <DType kFormat>
void from_floats(const float* from, HalfPrecision<kFormat>* to, std::size_t count) {
  floats_to_half_precision(kFormat, from, &to->bits, count);
}

/// Unsigned integer of the same size, for kernels that only move elements.
template <std::size_t Bytes>
using Bits = std::conditional_t<
    Bytes == 1, std::uint8_t,
    std::conditional_t<Bytes == 2, std::uint16_t,
                       std::conditional_t<Bytes == 4, std::uint32_t, std::uint64_t>>>;

struct Bits128 {
  std::uint64_t low, high;
};

/// Calls `body(T{})` for the C++ type of `dtype`; false if it is float8 or complex.
template <class Body>
bool dispatch_arithmetic(DType dtype, Body&& body) {
  switch (dtype) {
    case DType::Bool:
      body(std::uint8_t{});
      return true;
    case DType::Int8:
      body(std::int8_t{});
      return true;
    case DType::Int16:
      body(std::int16_t{});
      return true;
    case DType::Int32:
      body(std::int32_t{});
      return true;
    case DType::Int64:
      body(std::int64_t{});
      return true;
    case DType::UInt8:
      body(std::uint8_t{});
      return true;
    case DType::UInt16:
      body(std::uint16_t{});
      return true;
    case DType::UInt32:
      body(std::uint32_t{});
      return true;
    case DType::UInt64:
      body(std::uint64_t{});
      return true;
    case DType::Float16:
      body(Half{});
      return true;
    case DType::BFloat16:
      body(BFloat16{});
      return true;
    case DType::Float32:
      body(float{});
      return true;
    case DType::Float64:
      body(double{});
      return true;
    default:
      return false;
  }
}

/// As dispatch_arithmetic for float16, bfloat16, float32 and float64 only.
template <class Body>
bool dispatch_float(DType dtype, Body&& body) {
  return is_floating_point(dtype) && !is_float8(dtype) && dispatch_arithmetic(dtype, [&](auto tag) {
           if constexpr (kIsFloatElement<decltype(tag)>) body(tag);
         });
}

/// As dispatch_arithmetic for integers only.
template <class Body>
bool dispatch_index(DType dtype, Body&& body) {
  return is_integer(dtype) && dispatch_arithmetic(dtype, [&](auto tag) {
           if constexpr (std::is_integral_v<decltype(tag)>) body(tag);
         });
}

/// Calls `body` with a value of an unsigned type as wide as `dtype`.
template <class Body>
void dispatch_bytes(DType dtype, Body&& body) {
  switch (dtype_bytes(dtype)) {
    case 1:
      body(std::uint8_t{});
      return;
    case 2:
      body(std::uint16_t{});
      return;
    case 4:
      body(std::uint32_t{});
      return;
    case 8:
      body(std::uint64_t{});
      return;
    default:
      body(Bits128{});
      return;
  }
}

inline std::string unsupported_dtype(DType dtype) {
  return str_cat("dtype ", dtype, " is not supported");
}

template <class T>
const T* operand_in(std::byte* const* operands, std::size_t i) {
  return reinterpret_cast<const T*>(operands[i]);
}
template <class T>
T* operand_out(std::byte* const* operands, std::size_t i) {
  return reinterpret_cast<T*>(operands[i]);
}

}  // namespace pando::cpu
