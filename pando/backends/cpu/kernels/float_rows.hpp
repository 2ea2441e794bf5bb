// Rows of half precision or float32 as float: float32 in place, the others through a buffer.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "pando/backends/cpu/kernels/element.hpp"
#include "pando/backends/cpu/parallel.hpp"

namespace pando::cpu {

/// The row itself, or `buffer` holding its conversion.
inline const float* read_row(const float* row, float*, std::int64_t) { return row; }
template <DType kFormat>
const float* read_row(const HalfPrecision<kFormat>* row, float* buffer, std::int64_t count) {
  to_floats(row, buffer, static_cast<std::size_t>(count));
  return buffer;
}

/// Where to write a row: the row itself, or the buffer that finish_row converts.
inline float* begin_row(float* row, float*) { return row; }
template <DType kFormat>
float* begin_row(HalfPrecision<kFormat>*, float* buffer) {
  return buffer;
}
inline void finish_row(float*, const float*, std::int64_t) {}
template <DType kFormat>
void finish_row(HalfPrecision<kFormat>* row, const float* buffer, std::int64_t count) {
  from_floats(buffer, row, static_cast<std::size_t>(count));
}

/// Runs body(slot, begin, end) on at most `slots` equal parts of [0, count), each at least `grain`
/// long, so that a part may own a piece of scratch.
template <class Body>
void parallel_slots(int slots, std::int64_t count, std::int64_t grain, const Body& body) {
  const std::int64_t parts =
      std::clamp<std::int64_t>(count / std::max<std::int64_t>(1, grain), 1, std::max(1, slots));
  parallel_for(slots, parts, 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t part = first; part < last; ++part) {
      body(part, count * part / parts, count * (part + 1) / parts);
    }
  });
}

/// Rows of `row_elements` that are worth a thread of their own.
inline std::int64_t row_grain(std::int64_t row_elements, std::int64_t elements_per_task = 1 << 14) {
  return std::max<std::int64_t>(1, elements_per_task / std::max<std::int64_t>(1, row_elements));
}

}  // namespace pando::cpu
