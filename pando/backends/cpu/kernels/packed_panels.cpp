#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "pando/backends/cpu/kernels/packed_panels.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "pando/backends/cpu/half-inl.h"
#include "pando/backends/cpu/kernels/packed_panels.hpp"
#include "pando/backends/cpu/transpose_four-inl.h"
#include "pando/backends/cpu/unroll.hpp"

HWY_BEFORE_NAMESPACE();
namespace pando::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

constexpr std::int64_t kLanes = hn::MaxLanes(D());
constexpr std::int64_t kColumns = 2 * kLanes;
constexpr std::int64_t kRows = HWY_TARGET <= HWY_AVX3 ? 12 : 6;

PackedTile TileSize() { return {kRows, kColumns}; }

#if HWY_TARGET == HWY_SCALAR
template <std::int64_t kWidth, class Format, class T>
std::int64_t TransposeLines(const T* const*, std::int64_t, float*) {
  return 0;
}
#else
/// Four by four transposes; gives the number of depth steps done. The last store of a step may
/// spill into the next one, which is written later; the end of a panel has slack for it.
template <std::int64_t kWidth, class Format, class T>
HWY_INLINE std::int64_t TransposeLines(const T* const* line, std::int64_t depth, float* to) {
  constexpr std::int64_t kGroups = (kWidth + 3) / 4;
  const hn::FixedTag<float, 4> d;
  std::int64_t k = 0;
  for (; k + 4 <= depth; k += 4) {
    hn::Vec<decltype(d)> out[kGroups][4];
    PANDO_UNROLL for (std::int64_t g = 0; g < kGroups; ++g) {
      const hn::Vec<decltype(d)> rows[4] = {
          Format::Load(d, line[4 * g] + k), Format::Load(d, line[4 * g + 1] + k),
          Format::Load(d, line[4 * g + 2] + k), Format::Load(d, line[4 * g + 3] + k)};
      TransposeFour(d, rows, out[g]);
    }
    PANDO_UNROLL for (std::int64_t s = 0; s < 4; ++s) {
      PANDO_UNROLL for (std::int64_t g = 0; g < kGroups; ++g) {
        hn::StoreU(out[g][s], d, to + (k + s) * kWidth + 4 * g);
      }
    }
  }
  return k;
}
#endif

/// Lines contiguous along the depth. Lines past the end repeat the last one: their products are
/// never stored.
template <std::int64_t kWidth, class Format, class T>
HWY_INLINE void PackAcross(const T* from, std::int64_t line_stride, std::int64_t lines,
                           std::int64_t depth, float* to) {
  constexpr std::int64_t kPadded = (kWidth + 3) / 4 * 4;
  const T* line[kPadded];
  for (std::int64_t i = 0; i < kPadded; ++i) {
    line[i] = from + std::min({i, lines - 1, kWidth - 1}) * line_stride;
  }
  for (std::int64_t k = TransposeLines<kWidth, Format>(line, depth, to); k < depth; ++k) {
    for (std::int64_t i = 0; i < kWidth; ++i) to[k * kWidth + i] = Format::ToFloat(line[i][k]);
  }
}

/// kWidth elements side by side.
template <std::int64_t kWidth, class Format, class T>
HWY_INLINE void CopyLine(const T* from, float* to) {
  std::int64_t i = 0;
  if constexpr (kWidth % kLanes == 0) {
    const D d;
    PANDO_UNROLL for (; i < kWidth; i += kLanes) hn::StoreU(Format::Load(d, from + i), d, to + i);
  } else if constexpr (std::is_same_v<T, float>) {
    std::memcpy(to, from, kWidth * sizeof(float));
    return;
  }
#if HWY_TARGET != HWY_SCALAR
  const hn::FixedTag<float, 4> four;
  for (; i + 4 <= kWidth; i += 4) hn::StoreU(Format::Load(four, from + i), four, to + i);
#endif
  for (; i < kWidth; ++i) to[i] = Format::ToFloat(from[i]);
}

/// Lines side by side in memory: copies.
template <std::int64_t kWidth, class Format, class T>
HWY_INLINE void PackAlong(const T* from, std::int64_t depth_stride, std::int64_t lines,
                          std::int64_t depth, float* to) {
  for (std::int64_t k = 0; k < depth; ++k, from += depth_stride, to += kWidth) {
    if (lines >= kWidth) {
      CopyLine<kWidth, Format>(from, to);
      continue;
    }
    for (std::int64_t i = 0; i < kWidth; ++i) to[i] = i < lines ? Format::ToFloat(from[i]) : 0.f;
  }
}

/// Whole panels of lines that are side by side in memory: some cache lines of each step of the
/// depth, as one line of every step is slow to fetch.
template <std::int64_t kWidth, std::int64_t kPanels, class Format, class T>
HWY_INLINE void PackPanelsAlong(const T* from, std::int64_t depth_stride, std::int64_t depth,
                                float* to) {
  for (std::int64_t k = 0; k < depth; ++k, from += depth_stride, to += kWidth) {
    PANDO_UNROLL for (std::int64_t panel = 0; panel < kPanels; ++panel) {
      CopyLine<kWidth, Format>(from + panel * kWidth, to + panel * kWidth * depth);
    }
  }
}

template <std::int64_t kWidth, class Format, class T>
HWY_INLINE void PackPanelsOf(const PackSource& source, std::int64_t lines, std::int64_t depth,
                             float* to) {
  constexpr std::int64_t kPanels = 4;
  std::int64_t line = 0;
  if (source.line_stride == 1) {
    for (; line + kPanels * kWidth <= lines; line += kPanels * kWidth) {
      PackPanelsAlong<kWidth, kPanels, Format>(static_cast<const T*>(source.data) + line,
                                               source.depth_stride, depth, to);
      to += kPanels * kWidth * depth;
    }
  }
  for (; line < lines; line += kWidth, to += kWidth * depth) {
    const T* from = static_cast<const T*>(source.data) + line * source.line_stride;
    if (source.line_stride == 1) {
      PackAlong<kWidth, Format>(from, source.depth_stride, lines - line, depth, to);
    } else {
      PackAcross<kWidth, Format>(from, source.line_stride, lines - line, depth, to);
    }
  }
}

template <std::int64_t kWidth>
HWY_INLINE void PackPanels(const PackSource& from, std::int64_t lines, std::int64_t depth,
                           float* to) {
  switch (from.dtype) {
    case DType::Float16:
      return PackPanelsOf<kWidth, Float16Vectors, std::uint16_t>(from, lines, depth, to);
    case DType::BFloat16:
      return PackPanelsOf<kWidth, BFloat16Vectors, std::uint16_t>(from, lines, depth, to);
    default:
      return PackPanelsOf<kWidth, Float32Vectors, float>(from, lines, depth, to);
  }
}

void PackRows(const PackSource& from, std::int64_t rows, std::int64_t depth, float* to) {
  PackPanels<kRows>(from, rows, depth, to);
}

void PackColumns(const PackSource& from, std::int64_t columns, std::int64_t depth, float* to) {
  PackPanels<kColumns>(from, columns, depth, to);
}

HWY_INLINE void AddBoundaryTile(const PackedBlock& block, const float* tile, float* out,
                                std::int64_t rows, std::int64_t columns, const float* bias) {
  for (std::int64_t r = 0; r < rows; ++r, tile += kColumns, out += block.out_row) {
    for (std::int64_t c = 0; c < columns; ++c) {
      const float before = !block.first ? out[c] : bias == nullptr ? 0.f : bias[c];
      out[c] = before + tile[c];
    }
  }
}

/// One register tile of the product: R of the kRows rows of a panel.
template <std::int64_t R>
HWY_INLINE void MultiplyTile(const PackedBlock& block, const float* HWY_RESTRICT lhs,
                             const float* HWY_RESTRICT rhs, float* out, std::int64_t columns,
                             const float* bias) {
  const D d;
  V acc0[R], acc1[R];
  PANDO_UNROLL for (std::int64_t r = 0; r < R; ++r) acc0[r] = acc1[r] = hn::Zero(d);
  for (std::int64_t k = 0; k < block.depth; ++k, lhs += kRows, rhs += kColumns) {
    const V b0 = hn::LoadU(d, rhs), b1 = hn::LoadU(d, rhs + kLanes);
    PANDO_UNROLL for (std::int64_t r = 0; r < R; ++r) {
      const V a = hn::Set(d, lhs[r]);
      acc0[r] = hn::MulAdd(a, b0, acc0[r]);
      acc1[r] = hn::MulAdd(a, b1, acc1[r]);
    }
  }
  if (columns < kColumns) {
    alignas(64) float tile[R * kColumns];
    PANDO_UNROLL for (std::int64_t r = 0; r < R; ++r) {
      hn::StoreU(acc0[r], d, tile + r * kColumns);
      hn::StoreU(acc1[r], d, tile + r * kColumns + kLanes);
    }
    AddBoundaryTile(block, tile, out, R, columns, bias);
    return;
  }
  PANDO_UNROLL for (std::int64_t r = 0; r < R; ++r, out += block.out_row) {
    if (!block.first) {
      acc0[r] = hn::Add(hn::LoadU(d, out), acc0[r]);
      acc1[r] = hn::Add(hn::LoadU(d, out + kLanes), acc1[r]);
    } else if (bias != nullptr) {
      acc0[r] = hn::Add(hn::LoadU(d, bias), acc0[r]);
      acc1[r] = hn::Add(hn::LoadU(d, bias + kLanes), acc1[r]);
    }
    hn::StoreU(acc0[r], d, out);
    hn::StoreU(acc1[r], d, out + kLanes);
  }
}

/// The first `rows` (at most R) rows of a panel.
template <std::int64_t R>
HWY_INLINE void MultiplyRows(const PackedBlock& block, const float* lhs, const float* rhs,
                             float* out, std::int64_t rows, std::int64_t columns,
                             const float* bias) {
  if constexpr (R > 1) {
    if (rows < R) return MultiplyRows<R - 1>(block, lhs, rhs, out, rows, columns, bias);
  }
  MultiplyTile<R>(block, lhs, rhs, out, columns, bias);
}

void MultiplyBlock(const PackedBlock& block) {
  for (std::int64_t n = 0; n < block.columns; n += kColumns) {
    const float* rhs = block.rhs + n * block.depth;
    const float* bias = block.bias == nullptr ? nullptr : block.bias + n;
    for (std::int64_t m = 0; m < block.rows; m += kRows) {
      MultiplyRows<kRows>(block, block.lhs + m * block.depth, rhs,
                          block.out + m * block.out_row + n, std::min(kRows, block.rows - m),
                          std::min(kColumns, block.columns - n), bias);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace pando::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pando::cpu {

HWY_EXPORT(TileSize);
HWY_EXPORT(PackRows);
HWY_EXPORT(PackColumns);
HWY_EXPORT(MultiplyBlock);

PackedTile packed_tile() { return HWY_DYNAMIC_DISPATCH(TileSize)(); }

void pack_rows(const PackSource& from, std::int64_t rows, std::int64_t depth, float* to) {
  HWY_DYNAMIC_DISPATCH(PackRows)(from, rows, depth, to);
}

void pack_columns(const PackSource& from, std::int64_t columns, std::int64_t depth, float* to) {
  HWY_DYNAMIC_DISPATCH(PackColumns)(from, columns, depth, to);
}

void unpack_columns(const float* from, std::int64_t columns, std::int64_t depth,
                    const UnpackTarget& to) {
  const std::int64_t width = packed_tile().columns;
  for (std::int64_t first = 0; first < columns; first += width, from += width * depth) {
    const std::int64_t lines = std::min(width, columns - first);
    float* const panel = to.data + first * to.line_stride;
    if (to.line_stride == 1) {
      for (std::int64_t k = 0; k < depth; ++k) {
        std::copy_n(from + k * width, lines, panel + k * to.depth_stride);
      }
      continue;
    }
    // Line by line: writes to all lines at once would share a set of the cache.
    for (std::int64_t i = 0; i < lines; ++i) {
      float* const line = panel + i * to.line_stride;
      for (std::int64_t k = 0; k < depth; ++k) line[k * to.depth_stride] = from[k * width + i];
    }
  }
}

void multiply_block(const PackedBlock& block) { HWY_DYNAMIC_DISPATCH(MultiplyBlock)(block); }

}  // namespace pando::cpu
#endif  // HWY_ONCE
