#include "tests/oracle/array.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "pando/base/error.hpp"
#include "pando/base/half.hpp"

namespace pando::oracle {
namespace {

/// To nearest even with `digits` significant bits; denormal below 2^min_exponent.
Number round_float(Number x, int digits, int min_exponent, Number largest) {
  if (!std::isfinite(x) || x == 0.0L) return x;
  const int exponent = std::max(std::ilogb(x), min_exponent);
  const Number step = std::ldexp(1.0L, exponent - digits + 1);
  const Number result = std::nearbyint(x / step) * step;
  if (std::fabs(result) <= largest) return result;
  return std::copysign(std::numeric_limits<Number>::infinity(), x);
}

/// Denormals of float32 are zero while a program runs (float_state.hpp).
Number without_denormals(Number x) {
  return std::fabs(x) < std::numeric_limits<float>::min() ? std::copysign(0.0L, x) : x;
}

Number wrap_integer(Number x, std::size_t bytes, bool is_signed) {
  if (!std::isfinite(x)) return 0.0L;
  const Number modulus = std::ldexp(1.0L, static_cast<int>(8 * bytes));
  Number result = std::fmod(std::trunc(x), modulus);
  if (result < 0.0L) result += modulus;
  if (is_signed && result >= modulus / 2) result -= modulus;
  return result;
}

template <class T>
T load(const void* bytes, std::int64_t i) {
  T value;
  std::memcpy(&value, static_cast<const std::byte*>(bytes) + i * std::int64_t{sizeof(T)},
              sizeof(T));
  return value;
}

template <class T>
void store(void* bytes, std::int64_t i, T value) {
  std::memcpy(static_cast<std::byte*>(bytes) + i * std::int64_t{sizeof(T)}, &value, sizeof(T));
}

Number decode_one(const void* bytes, DType dtype, std::int64_t i) {
  switch (dtype) {
    case DType::Bool:
      return load<std::uint8_t>(bytes, i) != 0;
    case DType::Int8:
      return load<std::int8_t>(bytes, i);
    case DType::Int16:
      return load<std::int16_t>(bytes, i);
    case DType::Int32:
      return load<std::int32_t>(bytes, i);
    case DType::Int64:
      return static_cast<Number>(load<std::int64_t>(bytes, i));
    case DType::UInt8:
      return load<std::uint8_t>(bytes, i);
    case DType::UInt16:
      return load<std::uint16_t>(bytes, i);
    case DType::UInt32:
      return load<std::uint32_t>(bytes, i);
    case DType::UInt64:
      return static_cast<Number>(load<std::uint64_t>(bytes, i));
    case DType::Float8_143:
    case DType::Float8_152:
      return float8_to_float(load<std::uint8_t>(bytes, i), dtype);
    case DType::Float16:
    case DType::BFloat16:
      return half_precision_to_float(load<std::uint16_t>(bytes, i), dtype);
    case DType::Float32:
      return load<float>(bytes, i);
    case DType::Float64:
      return load<double>(bytes, i);
    default:
      throw NotSupported(str_cat("the reference has no ", dtype));
  }
}

void encode_one(Number x, DType dtype, void* bytes, std::int64_t i) {
  switch (dtype) {
    case DType::Bool:
    case DType::UInt8:
      return store(bytes, i, static_cast<std::uint8_t>(x));
    case DType::Int8:
      return store(bytes, i, static_cast<std::int8_t>(x));
    case DType::Int16:
      return store(bytes, i, static_cast<std::int16_t>(x));
    case DType::Int32:
      return store(bytes, i, static_cast<std::int32_t>(x));
    case DType::Int64:
      return store(bytes, i, static_cast<std::int64_t>(x));
    case DType::UInt16:
      return store(bytes, i, static_cast<std::uint16_t>(x));
    case DType::UInt32:
      return store(bytes, i, static_cast<std::uint32_t>(x));
    case DType::UInt64:
      return store(bytes, i, static_cast<std::uint64_t>(x));
    case DType::Float8_143:
    case DType::Float8_152:
      return store(bytes, i, float_to_float8(static_cast<float>(x), dtype));
    case DType::Float16:
    case DType::BFloat16:
      return store(bytes, i, float_to_half_precision(static_cast<float>(x), dtype));
    case DType::Float32:
      return store(bytes, i, static_cast<float>(x));
    case DType::Float64:
      return store(bytes, i, static_cast<double>(x));
    default:
      throw NotSupported(str_cat("the reference has no ", dtype));
  }
}

}  // namespace

Number rounded(Number x, DType dtype) {
  switch (dtype) {
    case DType::Bool:
      return x != 0.0L;
    case DType::Float16:
      return round_float(x, 11, -14, 65504.0L);
    case DType::Float32:
      return without_denormals(round_float(x, 24, -126, std::numeric_limits<float>::max()));
    case DType::BFloat16:
      return without_denormals(round_float(x, 8, -126, std::ldexp(255.0L, 120)));
    case DType::Float64:
      return round_float(x, 53, -1022, std::numeric_limits<double>::max());
    case DType::Float8_143:
    case DType::Float8_152:
      return float8_to_float(float_to_float8(static_cast<float>(x), dtype), dtype);
    default:
      return wrap_integer(x, dtype_bytes(dtype), traits(dtype).is_signed);
  }
}

std::vector<Number> decode(const void* bytes, DType dtype, std::int64_t count) {
  std::vector<Number> numbers;
  numbers.reserve(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) numbers.push_back(decode_one(bytes, dtype, i));
  return numbers;
}

void encode(const std::vector<Number>& numbers, DType dtype, void* bytes) {
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    encode_one(rounded(numbers[i], dtype), dtype, bytes, static_cast<std::int64_t>(i));
  }
}

std::int64_t flat_position(const Shape& shape, const Shape& index) {
  std::int64_t position = 0;
  for (std::size_t d = 0; d < shape.size(); ++d) position = position * shape[d] + index[d];
  return position;
}

Shape index_at(const Shape& shape, std::int64_t position) {
  Shape index(shape.size());
  for (std::size_t d = shape.size(); d-- > 0;) {
    index[d] = position % shape[d];
    position /= shape[d];
  }
  return index;
}

std::int64_t broadcast_position(const Shape& from, const Shape& index) {
  const std::size_t skipped = index.size() - from.size();
  std::int64_t position = 0;
  for (std::size_t d = 0; d < from.size(); ++d) {
    position = position * from[d] + (from[d] == 1 ? 0 : index[d + skipped]);
  }
  return position;
}

void advance(const Shape& shape, Shape& index) {
  for (std::size_t d = shape.size(); d-- > 0;) {
    if (++index[d] < shape[d]) return;
    index[d] = 0;
  }
}

}  // namespace pando::oracle
