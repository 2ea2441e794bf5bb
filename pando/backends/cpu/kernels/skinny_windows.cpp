#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "pando/backends/cpu/kernels/skinny_windows.cpp"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstring>

#include "pando/backends/cpu/half-inl.h"
#include "pando/backends/cpu/kernels/half_rows.hpp"
#include "pando/backends/cpu/kernels/skinny_windows.hpp"
#include "pando/backends/cpu/masked_load-inl.h"
#include "pando/backends/cpu/unroll.hpp"

HWY_BEFORE_NAMESPACE();
namespace pando::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

// Accumulators of a tile of columns (two vectors a row) or dot products must stay in registers.
constexpr std::int64_t kMaxRows = HWY_TARGET <= HWY_AVX3 ? 12 : 6;
constexpr std::int64_t kDotTileRows = 4;
constexpr int kMaxDotTileColumns = 4;
/// Columns of dot products with R rows that are computed together.
template <int R>
constexpr int kDotTileColumns = HWY_TARGET <= HWY_AVX3 || R <= 2 ? kMaxDotTileColumns : 2;
// Columns of half precision that are computed together.
constexpr std::int64_t kMaxTileColumns = 32;
// Sums that wait in the first cache level.
constexpr std::int64_t kMaxStreamedSums = 2048;
// So early a column is asked for: it is too short for the processor to foresee the next one.
constexpr std::int64_t kDotTermsAhead = 512;
// So many rows early a line of a tile's columns is asked for: rows are too far apart for the
// processor to foresee them.
constexpr std::int64_t kTileRowsAhead = 48;
constexpr std::int64_t kLineBytes = 64;
// A block of the rhs panel (kDepth rows of two vectors) stays in the first cache level.
constexpr std::int64_t kDepth = 256;

/// The first `count` elements, which `mask` chooses, and zeros.
template <class Format, class T, class M>
HWY_INLINE V LoadSome(D d, M mask, std::int64_t count, const T* from) {
  if constexpr (std::is_same_v<T, float>) {
    return LoadFirst(mask, d, from);
  } else {
    T elements[hn::MaxLanes(D())] = {};
    std::memcpy(elements, from, static_cast<std::size_t>(count) * sizeof(T));
    return Format::Load(d, elements);
  }
}

/// R rows by C vectors of columns over `depth` steps of k. Full: all vectors are whole. Not
/// inlined: the distances of the rows need the registers.
template <int R, int C, bool Full, class Format, class T>
HWY_NOINLINE void ColumnTile(const SkinnyMatMul& p, const float* lhs, const T* rhs,
                             std::int64_t depth, std::int64_t columns, bool first,
                             const float* bias, float* out, std::int64_t out_row) {
  const D d;
  constexpr auto kLanes = static_cast<std::int64_t>(hn::MaxLanes(D()));
  // Of the last vector.
  const std::int64_t count = std::min(kLanes, columns - (C - 1) * kLanes);
  const auto mask = hn::FirstN(d, static_cast<std::size_t>(count));
  const auto load = [&](int c, const float* from) HWY_ATTR {
    if (Full || c + 1 < C) return hn::LoadU(d, from + c * kLanes);
    return LoadFirst(mask, d, from + c * kLanes);
  };
  V acc[R][C];
  PANDO_UNROLL for (int r = 0; r < R; ++r) {
    PANDO_UNROLL for (int c = 0; c < C; ++c) {
      acc[r][c] = !first            ? load(c, out + r * out_row)
                  : bias != nullptr ? load(c, bias)
                                    : hn::Zero(d);
    }
  }
  constexpr int kVectorsPerLine =
      static_cast<int>(std::max<std::int64_t>(1, kLineBytes / (kLanes * std::int64_t(sizeof(T)))));
  const std::int64_t near_end = std::max<std::int64_t>(0, depth - kTileRowsAhead);
  const T* ahead = rhs + (depth - near_end) * p.rhs_row;
  for (std::int64_t k = 0; k < depth; ++k) {
    // The next tile begins beside this one.
    if (k == near_end) ahead += columns - depth * p.rhs_row;
    PANDO_UNROLL for (int c = 0; c < C; c += kVectorsPerLine) hwy::Prefetch(ahead + c * kLanes);
    ahead += p.rhs_row;
    V b[C];
    PANDO_UNROLL for (int c = 0; c < C; ++c) {
      if (Full || c + 1 < C) {
        b[c] = Format::Load(d, rhs + c * kLanes);
      } else {
        b[c] = LoadSome<Format>(d, mask, count, rhs + c * kLanes);
      }
    }
    PANDO_UNROLL for (int r = 0; r < R; ++r) {
      const V a = hn::Set(d, lhs[r * p.lhs_row]);
      PANDO_UNROLL for (int c = 0; c < C; ++c) acc[r][c] = hn::MulAdd(a, b[c], acc[r][c]);
    }
    lhs += p.lhs_column;
    rhs += p.rhs_row;
  }
  PANDO_UNROLL for (int r = 0; r < R; ++r) {
    PANDO_UNROLL for (int c = 0; c < C; ++c) {
      float* to = out + r * out_row + c * kLanes;
      if (Full || c + 1 < C) {
        hn::StoreU(acc[r][c], d, to);
      } else {
        hn::BlendedStore(acc[r][c], mask, d, to);
      }
    }
  }
}

/// Calls `body` with `rows` (1 to R) as a compile-time constant.
template <int R, class Body>
HWY_INLINE void WithRows(std::int64_t rows, const Body& body) {
  if constexpr (R > 1) {
    if (rows < R) return WithRows<R - 1>(rows, body);
  }
  body(std::integral_constant<int, R>());
}

/// Size of the next group when `rows` are cut into groups of nearly equal size up to `max`.
HWY_INLINE std::int64_t GroupRows(std::int64_t rows, std::int64_t max) {
  const std::int64_t groups = (rows + max - 1) / max;
  return (rows + groups - 1) / groups;
}

/// At most two vectors of columns; `out` is that of row 0. rhs has contiguous rows.
template <class Format, class T>
HWY_INLINE void ColumnSlab(const SkinnyMatMul& p, const float* lhs, const T* rhs, const float* bias,
                           float* out, std::int64_t out_row, std::int64_t columns,
                           const Window& w) {
  const D d;
  const std::int64_t width = 2 * static_cast<std::int64_t>(hn::Lanes(d));
  // One group of rows reads the panel once.
  const std::int64_t most = w.row_end - w.row_begin <= kMaxRows ? p.k : kDepth;
  std::int64_t k = 0;
  do {
    const std::int64_t depth = std::min(most, p.k - k);
    for (std::int64_t m = w.row_begin; m < w.row_end;) {
      const std::int64_t group = GroupRows(w.row_end - m, kMaxRows);
      WithRows<kMaxRows>(group, [&](auto rows) HWY_ATTR {
        const float* a = lhs + m * p.lhs_row + k * p.lhs_column;
        const T* b = rhs + k * p.rhs_row;
        float* o = out + m * out_row;
        const auto tile = [&](auto vectors, auto full) HWY_ATTR {
          ColumnTile<rows.value, vectors.value, full.value, Format>(p, a, b, depth, columns, k == 0,
                                                                    bias, o, out_row);
        };
        if (columns == width) {
          tile(std::integral_constant<int, 2>(), std::true_type());
        } else if (columns > width / 2) {
          tile(std::integral_constant<int, 2>(), std::false_type());
        } else {
          tile(std::integral_constant<int, 1>(), std::false_type());
        }
      });
      m += group;
    }
    k += depth;
  } while (k < p.k);
}

void ColumnWindow(const SkinnyMatMul& p, const float* lhs, const float* rhs, const float* bias,
                  float* out, const Window& w) {
  const D d;
  const std::int64_t width = 2 * static_cast<std::int64_t>(hn::Lanes(d));
  for (std::int64_t n = w.column_begin; n < w.column_end; n += width) {
    ColumnSlab<Float32Vectors>(p, lhs, rhs + n, bias == nullptr ? nullptr : bias + n, out + n, p.n,
                               std::min(width, w.column_end - n), w);
  }
}

/// The sums of a slab stay in float32 until the last term.
template <class Format>
void HalfColumnWindow(const SkinnyMatMul& p, const float* lhs, const std::uint16_t* rhs,
                      const float* bias, std::uint16_t* out, const Window& w) {
  const D d;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(d)), width = 2 * lanes;
  HWY_ALIGN float tile[kMaxTileRows * kMaxTileColumns];
  for (std::int64_t n = w.column_begin; n < w.column_end; n += width) {
    const std::int64_t columns = std::min(width, w.column_end - n);
    ColumnSlab<Format>(p, lhs, rhs + n, bias == nullptr ? nullptr : bias + n, tile, width, columns,
                       w);
    for (std::int64_t m = w.row_begin; m < w.row_end; ++m) {
      std::uint16_t rounded[kMaxTileColumns];
      Format::Store(d, hn::LoadU(d, tile + m * width), rounded);
      Format::Store(d, hn::LoadU(d, tile + m * width + lanes), rounded + lanes);
      std::memcpy(out + m * p.n + n, rounded, static_cast<std::size_t>(columns) * sizeof(*out));
    }
  }
}

void Float16ColumnWindow(const SkinnyMatMul& p, const float* lhs, const std::uint16_t* rhs,
                         const float* bias, std::uint16_t* out, const Window& w) {
  HalfColumnWindow<Float16Vectors>(p, lhs, rhs, bias, out, w);
}
void BFloat16ColumnWindow(const SkinnyMatMul& p, const float* lhs, const std::uint16_t* rhs,
                          const float* bias, std::uint16_t* out, const Window& w) {
  HalfColumnWindow<BFloat16Vectors>(p, lhs, rhs, bias, out, w);
}

/// Adds S terms to R rows of sums.
template <int R, int S, class Format, class T>
HWY_INLINE void AddTerms(const SkinnyMatMul& p, const float* lhs, const T* rhs, float* sums,
                         std::int64_t sums_row, std::int64_t columns) {
  const D d;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(d));
  V a[R][S];
  PANDO_UNROLL for (int r = 0; r < R; ++r) {
    PANDO_UNROLL for (int s = 0; s < S; ++s) {
      a[r][s] = hn::Set(d, lhs[r * p.lhs_row + s * p.lhs_column]);
    }
  }
  std::int64_t n = 0;
  for (; n + lanes <= columns; n += lanes) {
    V acc[R];
    PANDO_UNROLL for (int r = 0; r < R; ++r) acc[r] = hn::LoadU(d, sums + r * sums_row + n);
    PANDO_UNROLL for (int s = 0; s < S; ++s) {
      const V b = Format::Load(d, rhs + s * p.rhs_row + n);
      PANDO_UNROLL for (int r = 0; r < R; ++r) acc[r] = hn::MulAdd(a[r][s], b, acc[r]);
    }
    PANDO_UNROLL for (int r = 0; r < R; ++r) hn::StoreU(acc[r], d, sums + r * sums_row + n);
  }
  if (n == columns) return;
  const auto mask = hn::FirstN(d, static_cast<std::size_t>(columns - n));
  PANDO_UNROLL for (int s = 0; s < S; ++s) {
    const V b = LoadSome<Format>(d, mask, columns - n, rhs + s * p.rhs_row + n);
    PANDO_UNROLL for (int r = 0; r < R; ++r) {
      float* to = sums + r * sums_row + n;
      hn::BlendedStore(hn::MulAdd(a[r][s], b, LoadFirst(mask, d, to)), mask, d, to);
    }
  }
}

/// All R rows of the product and `columns` columns: each row of the rhs is read once, as it lies.
template <int R, class Format, class T>
HWY_INLINE void StreamRows(const SkinnyMatMul& p, const float* lhs, const T* rhs, const float* bias,
                           float* sums, std::int64_t sums_row, std::int64_t columns) {
  // As many rows of the rhs arrive from memory at a time.
  constexpr int kTerms = 8;
  for (int r = 0; r < R; ++r) {
    for (std::int64_t n = 0; n < columns; ++n) {
      sums[r * sums_row + n] = bias == nullptr ? 0.f : bias[n];
    }
  }
  std::int64_t k = 0;
  for (; k + kTerms <= p.k; k += kTerms, lhs += kTerms * p.lhs_column, rhs += kTerms * p.rhs_row) {
    AddTerms<R, kTerms, Format>(p, lhs, rhs, sums, sums_row, columns);
  }
  for (; k < p.k; ++k, lhs += p.lhs_column, rhs += p.rhs_row) {
    AddTerms<R, 1, Format>(p, lhs, rhs, sums, sums_row, columns);
  }
}

void StreamWindow(const SkinnyMatMul& p, const float* lhs, const float* rhs, const float* bias,
                  float* out, const Window& w) {
  const std::int64_t step = kMaxStreamedSums / p.m;
  for (std::int64_t n = w.column_begin; n < w.column_end; n += step) {
    WithRows<kMaxStreamedRows>(p.m, [&](auto rows) HWY_ATTR {
      StreamRows<rows.value, Float32Vectors>(p, lhs, rhs + n, bias == nullptr ? nullptr : bias + n,
                                             out + n, p.n, std::min(step, w.column_end - n));
    });
  }
}

template <class Format, DType kFormat>
void HalfStreamWindow(const SkinnyMatMul& p, const float* lhs, const std::uint16_t* rhs,
                      const float* bias, std::uint16_t* out, const Window& w) {
  HWY_ALIGN float sums[kMaxStreamedSums];
  const std::int64_t step = kMaxStreamedSums / p.m;
  for (std::int64_t n = w.column_begin; n < w.column_end; n += step) {
    const std::int64_t columns = std::min(step, w.column_end - n);
    WithRows<kMaxStreamedRows>(p.m, [&](auto rows) HWY_ATTR {
      StreamRows<rows.value, Format>(p, lhs, rhs + n, bias == nullptr ? nullptr : bias + n, sums,
                                     step, columns);
    });
    for (std::int64_t m = 0; m < p.m; ++m) {
      floats_to_half_precision(kFormat, sums + m * step, out + m * p.n + n,
                               static_cast<std::size_t>(columns));
    }
  }
}

void Float16StreamWindow(const SkinnyMatMul& p, const float* lhs, const std::uint16_t* rhs,
                         const float* bias, std::uint16_t* out, const Window& w) {
  HalfStreamWindow<Float16Vectors, DType::Float16>(p, lhs, rhs, bias, out, w);
}
void BFloat16StreamWindow(const SkinnyMatMul& p, const float* lhs, const std::uint16_t* rhs,
                          const float* bias, std::uint16_t* out, const Window& w) {
  HalfStreamWindow<BFloat16Vectors, DType::BFloat16>(p, lhs, rhs, bias, out, w);
}

/// R rows of lhs against C rows of the transposed rhs, both contiguous along k.
template <int R, int C, class Format, class T>
HWY_INLINE void DotTile(const SkinnyMatMul& p, const float* lhs, const T* rhs, const float* bias,
                        float* out, std::int64_t out_row) {
  const D d;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(d));
  V acc[R][C];
  PANDO_UNROLL for (int r = 0; r < R; ++r) {
    PANDO_UNROLL for (int c = 0; c < C; ++c) acc[r][c] = hn::Zero(d);
  }
  const std::int64_t distance = std::min(kDotTermsAhead, p.k), near_end = p.k - distance;
  const T* ahead = rhs + distance;
  std::int64_t k = 0;
  for (; k + lanes <= p.k; k += lanes) {
    if (k >= near_end) ahead = rhs + C * p.rhs_column - near_end;
    V b[C];
    PANDO_UNROLL for (int c = 0; c < C; ++c) {
      b[c] = Format::Load(d, rhs + c * p.rhs_column + k);
      hwy::Prefetch(ahead + c * p.rhs_column + k);
    }
    PANDO_UNROLL for (int r = 0; r < R; ++r) {
      const V a = hn::LoadU(d, lhs + r * p.lhs_row + k);
      PANDO_UNROLL for (int c = 0; c < C; ++c) acc[r][c] = hn::MulAdd(a, b[c], acc[r][c]);
    }
  }
  if (k < p.k) {
    const auto mask = hn::FirstN(d, static_cast<std::size_t>(p.k - k));
    PANDO_UNROLL for (int r = 0; r < R; ++r) {
      const V a = LoadFirst(mask, d, lhs + r * p.lhs_row + k);
      PANDO_UNROLL for (int c = 0; c < C; ++c) {
        const V b = LoadSome<Format>(d, mask, p.k - k, rhs + c * p.rhs_column + k);
        acc[r][c] = hn::MulAdd(a, b, acc[r][c]);
      }
    }
  }
  PANDO_UNROLL for (int r = 0; r < R; ++r) {
    PANDO_UNROLL for (int c = 0; c < C; ++c) {
      out[r * out_row + c] =
          hn::GetLane(hn::SumOfLanes(d, acc[r][c])) + (bias == nullptr ? 0.f : bias[c]);
    }
  }
}

/// At most kMaxDotTileColumns columns of the result; `out` is that of row 0. rhs has contiguous
/// columns and lhs contiguous rows.
template <class Format, class T>
HWY_INLINE void DotSlab(const SkinnyMatMul& p, const float* lhs, const T* rhs, const float* bias,
                        float* out, std::int64_t out_row, std::int64_t columns, const Window& w) {
  for (std::int64_t m = w.row_begin; m < w.row_end;) {
    const std::int64_t group = GroupRows(w.row_end - m, kDotTileRows);
    WithRows<kDotTileRows>(group, [&](auto rows) HWY_ATTR {
      constexpr int kColumns = kDotTileColumns<rows.value>;
      const float* a = lhs + m * p.lhs_row;
      float* o = out + m * out_row;
      const auto tile = [&](auto count, std::int64_t n) HWY_ATTR {
        DotTile<rows.value, count.value, Format>(
            p, a, rhs + n * p.rhs_column, bias == nullptr ? nullptr : bias + n, o + n, out_row);
      };
      std::int64_t n = 0;
      for (; n + kColumns <= columns; n += kColumns) {
        tile(std::integral_constant<int, kColumns>(), n);
      }
      for (; n < columns; ++n) tile(std::integral_constant<int, 1>(), n);
    });
    m += group;
  }
}

void DotWindow(const SkinnyMatMul& p, const float* lhs, const float* rhs, const float* bias,
               float* out, const Window& w) {
  for (std::int64_t n = w.column_begin; n < w.column_end; n += kMaxDotTileColumns) {
    DotSlab<Float32Vectors>(p, lhs, rhs + n * p.rhs_column, bias == nullptr ? nullptr : bias + n,
                            out + n, p.n,
                            std::min<std::int64_t>(kMaxDotTileColumns, w.column_end - n), w);
  }
}

template <class Format, DType kFormat>
void HalfDotWindow(const SkinnyMatMul& p, const float* lhs, const std::uint16_t* rhs,
                   const float* bias, std::uint16_t* out, const Window& w) {
  float tile[kMaxTileRows * kMaxDotTileColumns];
  for (std::int64_t n = w.column_begin; n < w.column_end; n += kMaxDotTileColumns) {
    const std::int64_t columns = std::min<std::int64_t>(kMaxDotTileColumns, w.column_end - n);
    DotSlab<Format>(p, lhs, rhs + n * p.rhs_column, bias == nullptr ? nullptr : bias + n, tile,
                    kMaxDotTileColumns, columns, w);
    for (std::int64_t m = w.row_begin; m < w.row_end; ++m) {
      for (std::int64_t c = 0; c < columns; ++c) {
        out[m * p.n + n + c] = float_to_half_precision(tile[kMaxDotTileColumns * m + c], kFormat);
      }
    }
  }
}

void Float16DotWindow(const SkinnyMatMul& p, const float* lhs, const std::uint16_t* rhs,
                      const float* bias, std::uint16_t* out, const Window& w) {
  HalfDotWindow<Float16Vectors, DType::Float16>(p, lhs, rhs, bias, out, w);
}
void BFloat16DotWindow(const SkinnyMatMul& p, const float* lhs, const std::uint16_t* rhs,
                       const float* bias, std::uint16_t* out, const Window& w) {
  HalfDotWindow<BFloat16Vectors, DType::BFloat16>(p, lhs, rhs, bias, out, w);
}

std::int64_t MaxDotRows() {
  constexpr std::int64_t kOnednnOvertakes = HWY_TARGET <= HWY_AVX3 ? 32 : 16;
  static_assert(kOnednnOvertakes <= kMaxTileRows);
  return kOnednnOvertakes;
}

}  // namespace HWY_NAMESPACE
}  // namespace pando::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pando::cpu {

HWY_EXPORT(StreamWindow);
HWY_EXPORT(Float16StreamWindow);
HWY_EXPORT(BFloat16StreamWindow);
HWY_EXPORT(ColumnWindow);
HWY_EXPORT(Float16ColumnWindow);
HWY_EXPORT(BFloat16ColumnWindow);
HWY_EXPORT(DotWindow);
HWY_EXPORT(Float16DotWindow);
HWY_EXPORT(BFloat16DotWindow);
HWY_EXPORT(MaxDotRows);

std::int64_t max_dot_rows() { return HWY_DYNAMIC_DISPATCH(MaxDotRows)(); }

void run_window(SkinnyWay way, const SkinnyMatMul& p, const float* lhs, const float* rhs,
                const float* bias, float* out, const Window& window) {
  switch (way) {
    case SkinnyWay::Rows:
      return HWY_DYNAMIC_DISPATCH(StreamWindow)(p, lhs, rhs, bias, out, window);
    case SkinnyWay::Columns:
      return HWY_DYNAMIC_DISPATCH(ColumnWindow)(p, lhs, rhs, bias, out, window);
    case SkinnyWay::Dots:
      return HWY_DYNAMIC_DISPATCH(DotWindow)(p, lhs, rhs, bias, out, window);
  }
}

void run_half_window(SkinnyWay way, DType format, const SkinnyMatMul& p, const float* lhs,
                     const std::uint16_t* rhs, const float* bias, std::uint16_t* out,
                     const Window& window) {
  const bool is_float16 = format == DType::Float16;
  switch (way) {
    case SkinnyWay::Rows:
      return is_float16
                 ? HWY_DYNAMIC_DISPATCH(Float16StreamWindow)(p, lhs, rhs, bias, out, window)
                 : HWY_DYNAMIC_DISPATCH(BFloat16StreamWindow)(p, lhs, rhs, bias, out, window);
    case SkinnyWay::Columns:
      return is_float16
                 ? HWY_DYNAMIC_DISPATCH(Float16ColumnWindow)(p, lhs, rhs, bias, out, window)
                 : HWY_DYNAMIC_DISPATCH(BFloat16ColumnWindow)(p, lhs, rhs, bias, out, window);
    case SkinnyWay::Dots:
      return is_float16 ? HWY_DYNAMIC_DISPATCH(Float16DotWindow)(p, lhs, rhs, bias, out, window)
                        : HWY_DYNAMIC_DISPATCH(BFloat16DotWindow)(p, lhs, rhs, bias, out, window);
  }
}

}  // namespace pando::cpu
#endif  // HWY_ONCE
