// Checks of what instructions name by index: kernels, persistent memory, streams, ...
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pando/base/error.hpp"
#include "pando/program/program.hpp"

namespace pando::program_check {

/// Keeps sums of a few offsets and sizes within 64 bits.
inline constexpr std::int64_t kMostBytes = std::int64_t{1} << 60;

[[noreturn]] void fail(const std::string& what);

inline void require(bool condition, const char* what) {
  if (!condition) fail(what);
}

template <class List>
void require_index(std::int64_t index, const List& list, const char* what) {
  if (index < 0 || index >= static_cast<std::int64_t>(list.size())) {
    fail(str_cat(what, " ", index, " of ", list.size()));
  }
}

/// One size for each device of the program, none larger than any memory.
void require_sizes(const Program& program, const std::vector<std::int64_t>& by_device,
                   const char* what);

/// Bytes of a contiguous tensor.
std::int64_t checked_bytes(DType dtype, const Shape& shape);

/// The bytes that an operand touches, relative to its first element.
struct Extent {
  std::int64_t begin = 0;  // below 0 with negative strides
  std::int64_t end = 0;
};

/// Those of the inputs come first, then those of the outputs.
std::vector<Extent> extents_of(const KernelSpec& spec);

/// Throws Error unless everything but functions, sources and the memory report is sound.
void check_tables(const Program& program);

}  // namespace pando::program_check
