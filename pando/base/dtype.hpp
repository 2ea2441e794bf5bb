// Element types of tensors.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <ostream>
#include <string_view>

namespace pando {

// name, bytes, is_int, is_floating_point, is_signed, is_complex
#define PANDO_DTYPES(X)                    \
  X(Bool, bool, 1, 0, 0, 0, 0)             \
  X(Int8, int8, 1, 1, 0, 1, 0)             \
  X(Int16, int16, 2, 1, 0, 1, 0)           \
  X(Int32, int32, 4, 1, 0, 1, 0)           \
  X(Int64, int64, 8, 1, 0, 1, 0)           \
  X(UInt8, uint8, 1, 1, 0, 0, 0)           \
  X(UInt16, uint16, 2, 1, 0, 0, 0)         \
  X(UInt32, uint32, 4, 1, 0, 0, 0)         \
  X(UInt64, uint64, 8, 1, 0, 0, 0)         \
  X(Float8_143, float8_143, 1, 0, 1, 1, 0) \
  X(Float8_152, float8_152, 1, 0, 1, 1, 0) \
  X(Float16, float16, 2, 0, 1, 1, 0)       \
  X(BFloat16, bfloat16, 2, 0, 1, 1, 0)     \
  X(Float32, float32, 4, 0, 1, 1, 0)       \
  X(Float64, float64, 8, 0, 1, 1, 0)       \
  X(Complex64, complex64, 8, 0, 0, 1, 1)   \
  X(Complex128, complex128, 16, 0, 0, 1, 1)

enum class DType : std::uint8_t {
#define PANDO_DTYPE_ENUM(id, name, bytes, is_int, is_float, is_signed, is_complex) id,
  PANDO_DTYPES(PANDO_DTYPE_ENUM)
#undef PANDO_DTYPE_ENUM
};

struct DTypeTraits {
  std::string_view name;
  std::size_t bytes;
  bool is_int;
  bool is_floating_point;
  bool is_signed;
  bool is_complex;
};

inline constexpr std::array kDTypeTraits = {
#define PANDO_DTYPE_TRAITS(id, name, bytes, is_int, is_float, is_signed, is_complex) \
  DTypeTraits{#name, bytes, bool(is_int), bool(is_float), bool(is_signed), bool(is_complex)},
    PANDO_DTYPES(PANDO_DTYPE_TRAITS)
#undef PANDO_DTYPE_TRAITS
};

constexpr const DTypeTraits& traits(DType dtype) {
  return kDTypeTraits[static_cast<std::size_t>(dtype)];
}
constexpr std::string_view dtype_name(DType dtype) { return traits(dtype).name; }
constexpr std::size_t dtype_bytes(DType dtype) { return traits(dtype).bytes; }
constexpr bool is_integer(DType dtype) { return traits(dtype).is_int; }
constexpr bool is_floating_point(DType dtype) { return traits(dtype).is_floating_point; }
constexpr bool is_float8(DType dtype) {
  return dtype == DType::Float8_143 || dtype == DType::Float8_152;
}
/// Float formats of 16 bits: stored as they are, computed in float32.
constexpr bool is_half_precision(DType dtype) {
  return dtype == DType::Float16 || dtype == DType::BFloat16;
}
constexpr bool is_half_or_single_precision(DType dtype) {
  return is_half_precision(dtype) || dtype == DType::Float32;
}

/// The dtype called `name`; throws ValueError listing the known names.
DType parse_dtype(std::string_view name);

inline std::ostream& operator<<(std::ostream& out, DType dtype) { return out << dtype_name(dtype); }

}  // namespace pando
