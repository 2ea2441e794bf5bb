// Integer operands of any dtype, read one by one.
#pragma once

#include <cstdint>
#include <cstring>

#include "pando/base/dtype.hpp"

namespace pando::cpu {

class IndexReader {
 public:
  IndexReader(const std::byte* data, DType dtype) : data_(data), dtype_(dtype) {}

  /// Values of uint64 beyond int64 come out negative, so out of every range.
  std::int64_t operator[](std::int64_t i) const {
    switch (dtype_) {
      case DType::Int8:
        return read<std::int8_t>(i);
      case DType::Int16:
        return read<std::int16_t>(i);
      case DType::Int32:
        return read<std::int32_t>(i);
      case DType::UInt16:
        return read<std::uint16_t>(i);
      case DType::UInt32:
        return read<std::uint32_t>(i);
      case DType::Int64:
      case DType::UInt64:
        return read<std::int64_t>(i);
      default:
        return read<std::uint8_t>(i);
    }
  }

 private:
  template <class T>
  std::int64_t read(std::int64_t i) const {
    T value;
    std::memcpy(&value, data_ + i * static_cast<std::int64_t>(sizeof(T)), sizeof(T));
    return static_cast<std::int64_t>(value);
  }

  const std::byte* data_;
  DType dtype_;
};

}  // namespace pando::cpu
