// Where operands of kernels begin.
#pragma once

#include <cstdint>

namespace pando {

/// A cache line, and the widest vector.
inline constexpr std::int64_t kStorageAlignment = 64;
constexpr std::int64_t align_bytes(std::int64_t bytes) {
  return (bytes + kStorageAlignment - 1) / kStorageAlignment * kStorageAlignment;
}

}  // namespace pando
