// Transposes of blocks of a matrix whose elements are copied as they are.
#pragma once

#include <cstdint>
#include <cstring>
#include <numeric>
#include <type_traits>

namespace pando::cpu {

/// Most rows and columns of a block: long enough pieces of rows that lie in distant pages, and a
/// block of 8-byte elements still fits the first-level cache.
constexpr std::int64_t kTransposeSide = 64;

/// A block of `rows` by `columns` elements of the target. Rows of the target follow each other in
/// the source, columns of the source in the target; strides are in elements.
template <class T>
struct TransposeBlock {
  const T* in;
  std::int64_t in_stride;
  T* out;
  std::int64_t out_stride;
  std::int64_t rows, columns;
};

template <class T>
void transpose_elements(const TransposeBlock<T>& b) {
  for (std::int64_t r = 0; r < b.rows; ++r) {
    for (std::int64_t c = 0; c < b.columns; ++c) {
      b.out[r * b.out_stride + c] = b.in[c * b.in_stride + r];
    }
  }
}

/// Columns of the source one after the other: they are read once.
template <class T>
void transpose_full_block(const TransposeBlock<T>& b) {
  for (std::int64_t c = 0; c < kTransposeSide; ++c) {
    const T* column = b.in + c * b.in_stride;
    for (std::int64_t r = 0; r < kTransposeSide; ++r) b.out[r * b.out_stride + c] = column[r];
  }
}

/// Elements of 4 bytes, in tiles through registers.
void transpose_tiles(const TransposeBlock<std::uint32_t>& b);

/// Whether kTransposeSide lines this many bytes apart do not fit a first-level cache of 8 ways of
/// 4,096 bytes together: each would be fetched again for its next elements.
inline bool lines_share_sets(std::int64_t stride_bytes) {
  constexpr std::int64_t kWayBytes = 4096, kWays = 8;
  return std::gcd(stride_bytes, kWayBytes) * kTransposeSide > kWayBytes * kWays;
}

template <class T>
void transpose_block(const TransposeBlock<T>& b) {
  constexpr bool kHasTiles = std::is_same_v<T, std::uint32_t>;
  const bool is_full = b.rows == kTransposeSide && b.columns == kTransposeSide;
  if constexpr (kHasTiles) {
    if (!lines_share_sets(b.in_stride * std::int64_t{sizeof(T)})) return transpose_tiles(b);
  } else if (!is_full) {
    return transpose_elements(b);
  }
  // Through a buffer: reads and writes are then whole lines of cache.
  alignas(64) T buffer[kTransposeSide * kTransposeSide];
  TransposeBlock<T> into_buffer = b;
  into_buffer.out = buffer;
  into_buffer.out_stride = kTransposeSide;
  if constexpr (kHasTiles) {
    transpose_tiles(into_buffer);
  } else {
    transpose_full_block(into_buffer);
  }
  for (std::int64_t r = 0; r < b.rows; ++r) {
    std::memcpy(b.out + r * b.out_stride, buffer + r * kTransposeSide,
                static_cast<std::size_t>(b.columns) * sizeof(T));
  }
}

}  // namespace pando::cpu
