// Products with few rows, where packing the right operand would cost as much as the product: 8 x
// 784 by 784 x 512. A right operand of half precision is converted where it is loaded.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "pando/backends/cpu/kernels/skinny_matmul.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstring>

#include "pando/backends/cpu/half-inl.h"
#include "pando/backends/cpu/kernels/half_rows.hpp"
#include "pando/backends/cpu/kernels/masked_load-inl.h"
#include "pando/backends/cpu/kernels/matmul.hpp"
#include "pando/backends/cpu/parallel.hpp"
#include "pando/backends/cpu/unroll.hpp"
#include "pando/base/error.hpp"

#ifndef PANDO_BACKENDS_CPU_KERNELS_SKINNY_MATMUL_ONCE
#define PANDO_BACKENDS_CPU_KERNELS_SKINNY_MATMUL_ONCE
namespace pando::cpu {

/// Strides of the operands in elements. The lhs and the bias are float32.
struct SkinnyMatMul {
  std::int64_t m, n, k;
  std::int64_t lhs_row, lhs_column, rhs_row, rhs_column;
};

/// Rows [row_begin, row_end) and columns [column_begin, column_end) of the product.
struct Window {
  std::int64_t row_begin, row_end, column_begin, column_end;
};

/// Most rows of a product of half precision, and columns that are computed together.
constexpr std::int64_t kMaxTileRows = 32, kMaxTileColumns = 32;

}  // namespace pando::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace pando::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

// Accumulators of a tile of columns (two vectors a row) or dot products must stay in registers.
constexpr std::int64_t kMaxRows = HWY_TARGET <= HWY_AVX3 ? 12 : 6;
constexpr std::int64_t kMaxDotRows = HWY_TARGET <= HWY_AVX3 ? 8 : 4;
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

/// R rows by two vectors of columns over `depth` steps of k. Full: both vectors are whole.
template <int R, bool Full, class Format, class T>
HWY_INLINE void ColumnTile(const SkinnyMatMul& p, const float* lhs, const T* rhs,
                           std::int64_t depth, std::int64_t columns, bool first, const float* bias,
                           float* out, std::int64_t out_row) {
  const D d;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const std::int64_t count0 = std::min(lanes, columns);
  const std::int64_t count1 = std::max<std::int64_t>(0, columns - lanes);
  const auto mask0 = hn::FirstN(d, static_cast<std::size_t>(count0));
  const auto mask1 = hn::FirstN(d, static_cast<std::size_t>(count1));
  const auto load = [&](auto mask, const float* from) HWY_ATTR {
    if constexpr (Full) return hn::LoadU(d, from);
    return LoadFirst(mask, d, from);
  };
  V acc0[R], acc1[R];
  PANDO_UNROLL for (int r = 0; r < R; ++r) {
    if (!first) {
      acc0[r] = load(mask0, out + r * out_row);
      acc1[r] = load(mask1, out + r * out_row + lanes);
    } else if (bias != nullptr) {
      acc0[r] = load(mask0, bias);
      acc1[r] = load(mask1, bias + lanes);
    } else {
      acc0[r] = acc1[r] = hn::Zero(d);
    }
  }
  for (std::int64_t k = 0; k < depth; ++k) {
    V b0, b1;
    if constexpr (Full) {
      b0 = Format::Load(d, rhs);
      b1 = Format::Load(d, rhs + lanes);
    } else {
      b0 = LoadSome<Format>(d, mask0, count0, rhs);
      b1 = LoadSome<Format>(d, mask1, count1, rhs + lanes);
    }
    PANDO_UNROLL for (int r = 0; r < R; ++r) {
      const V a = hn::Set(d, lhs[r * p.lhs_row]);
      acc0[r] = hn::MulAdd(a, b0, acc0[r]);
      acc1[r] = hn::MulAdd(a, b1, acc1[r]);
    }
    lhs += p.lhs_column;
    rhs += p.rhs_row;
  }
  PANDO_UNROLL for (int r = 0; r < R; ++r) {
    if constexpr (Full) {
      hn::StoreU(acc0[r], d, out + r * out_row);
      hn::StoreU(acc1[r], d, out + r * out_row + lanes);
    } else {
      hn::BlendedStore(acc0[r], mask0, d, out + r * out_row);
      hn::BlendedStore(acc1[r], mask1, d, out + r * out_row + lanes);
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
  std::int64_t k = 0;
  do {
    const std::int64_t depth = std::min(kDepth, p.k - k);
    for (std::int64_t m = w.row_begin; m < w.row_end;) {
      const std::int64_t group = GroupRows(w.row_end - m, kMaxRows);
      WithRows<kMaxRows>(group, [&](auto rows) HWY_ATTR {
        const float* a = lhs + m * p.lhs_row + k * p.lhs_column;
        const T* b = rhs + k * p.rhs_row;
        float* o = out + m * out_row;
        if (columns == width) {
          ColumnTile<rows.value, true, Format>(p, a, b, depth, columns, k == 0, bias, o, out_row);
        } else {
          ColumnTile<rows.value, false, Format>(p, a, b, depth, columns, k == 0, bias, o, out_row);
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
  std::int64_t k = 0;
  for (; k + lanes <= p.k; k += lanes) {
    V b[C];
    PANDO_UNROLL for (int c = 0; c < C; ++c) b[c] = Format::Load(d, rhs + c * p.rhs_column + k);
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

/// `columns` (1 or 2) columns of the result; `out` is that of row 0. rhs has contiguous columns and
/// lhs contiguous rows.
template <class Format, class T>
HWY_INLINE void DotSlab(const SkinnyMatMul& p, const float* lhs, const T* rhs, const float* bias,
                        float* out, std::int64_t out_row, std::int64_t columns, const Window& w) {
  for (std::int64_t m = w.row_begin; m < w.row_end;) {
    const std::int64_t group = GroupRows(w.row_end - m, kMaxDotRows);
    WithRows<kMaxDotRows>(group, [&](auto rows) HWY_ATTR {
      const float* a = lhs + m * p.lhs_row;
      float* o = out + m * out_row;
      if (columns == 2) {
        DotTile<rows.value, 2, Format>(p, a, rhs, bias, o, out_row);
      } else {
        DotTile<rows.value, 1, Format>(p, a, rhs, bias, o, out_row);
      }
    });
    m += group;
  }
}

void DotWindow(const SkinnyMatMul& p, const float* lhs, const float* rhs, const float* bias,
               float* out, const Window& w) {
  for (std::int64_t n = w.column_begin; n < w.column_end; n += 2) {
    DotSlab<Float32Vectors>(p, lhs, rhs + n * p.rhs_column, bias == nullptr ? nullptr : bias + n,
                            out + n, p.n, std::min<std::int64_t>(2, w.column_end - n), w);
  }
}

template <class Format, DType kFormat>
void HalfDotWindow(const SkinnyMatMul& p, const float* lhs, const std::uint16_t* rhs,
                   const float* bias, std::uint16_t* out, const Window& w) {
  float tile[kMaxTileRows * 2];
  for (std::int64_t n = w.column_begin; n < w.column_end; n += 2) {
    const std::int64_t columns = std::min<std::int64_t>(2, w.column_end - n);
    DotSlab<Format>(p, lhs, rhs + n * p.rhs_column, bias == nullptr ? nullptr : bias + n, tile, 2,
                    columns, w);
    for (std::int64_t m = w.row_begin; m < w.row_end; ++m) {
      for (std::int64_t c = 0; c < columns; ++c) {
        out[m * p.n + n + c] = float_to_half_precision(tile[2 * m + c], kFormat);
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

}  // namespace HWY_NAMESPACE
}  // namespace pando::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pando::cpu {
namespace {

HWY_EXPORT(ColumnWindow);
HWY_EXPORT(Float16ColumnWindow);
HWY_EXPORT(BFloat16ColumnWindow);
HWY_EXPORT(DotWindow);
HWY_EXPORT(Float16DotWindow);
HWY_EXPORT(BFloat16DotWindow);

// Where the packed product of oneDNN overtakes (measured with AVX2).
constexpr std::int64_t kMaxColumnRows = 32;
constexpr std::int64_t kMaxDotRows = 16;
constexpr std::int64_t kMinDotDepth = 64;
constexpr std::int64_t kColumnStep = 32;
constexpr double kMinimumFlopsPerTask = 3e5;
static_assert(kMaxColumnRows <= kMaxTileRows && kMaxDotRows <= kMaxTileRows);

std::int64_t task_grain(double flops_per_item) {
  return std::max<std::int64_t>(
      1, static_cast<std::int64_t>(kMinimumFlopsPerTask / std::max(1.0, flops_per_item)));
}

/// Calls body(window) for windows of columns on several threads.
template <class Body>
void for_windows(const SkinnyMatMul& p, int num_threads, const Body& body) {
  const std::int64_t blocks = (p.n + kColumnStep - 1) / kColumnStep;
  parallel_for(num_threads, blocks, task_grain(2.0 * kColumnStep * double(p.m) * double(p.k)),
               [&](std::int64_t begin, std::int64_t end) {
                 body({0, p.m, begin * kColumnStep, std::min(p.n, end * kColumnStep)});
               });
}

struct FloatSkinnyMatMul {
  SkinnyMatMul p;
  MatMulProblem problem;
  bool columns;
  int num_threads;

  void operator()(std::byte* const* operands, std::byte* scratch) const {
    const auto* lhs = reinterpret_cast<const float*>(operands[0]);
    const auto* rhs = reinterpret_cast<const float*>(operands[1]);
    const float* bias = problem.has_bias ? reinterpret_cast<const float*>(operands[2]) : nullptr;
    auto* out = reinterpret_cast<float*>(operands[problem.out_operand()]);
    for_windows(p, num_threads, [&](const Window& window) {
      if (columns) {
        HWY_DYNAMIC_DISPATCH(ColumnWindow)(p, lhs, rhs, bias, out, window);
      } else {
        HWY_DYNAMIC_DISPATCH(DotWindow)(p, lhs, rhs, bias, out, window);
      }
      const auto mine = problem.finish_scratch() * static_cast<std::size_t>(thread_index());
      problem.finish(operands, scratch + mine,
                     {0, p.m, window.column_begin, window.column_end - window.column_begin});
    });
  }
};

/// The few rows of the lhs, and the bias, are converted to float32 first.
struct HalfSkinnyMatMul {
  SkinnyMatMul p;  // with the strides of the converted lhs
  MatMulProblem problem;
  bool columns;
  int num_threads;

  std::size_t lhs_bytes() const {
    return scratch_aligned(static_cast<std::size_t>(p.m * p.k) * sizeof(float));
  }
  std::size_t bias_bytes() const {
    return scratch_aligned(static_cast<std::size_t>(p.n) * sizeof(float));
  }

  void convert_lhs(const std::uint16_t* from, float* to) const {
    for (std::int64_t m = 0; m < p.m; ++m, from += problem.lhs_row, to += p.k) {
      if (problem.lhs_column == 1) {
        half_precision_to_floats(problem.dtype, from, to, static_cast<std::size_t>(p.k));
        continue;
      }
      for (std::int64_t k = 0; k < p.k; ++k) {
        to[k] = half_precision_to_float(from[k * problem.lhs_column], problem.dtype);
      }
    }
  }

  void operator()(std::byte* const* operands, std::byte* scratch) const {
    const DType format = problem.dtype;
    const auto at = [&](std::size_t i) { return reinterpret_cast<std::uint16_t*>(operands[i]); };
    auto* lhs = reinterpret_cast<float*>(scratch);
    float* bias = problem.has_bias ? reinterpret_cast<float*>(scratch + lhs_bytes()) : nullptr;
    convert_lhs(at(0), lhs);
    if (bias != nullptr) {
      half_precision_to_floats(format, at(2), bias, static_cast<std::size_t>(p.n));
    }
    const std::uint16_t* rhs = at(1);
    std::uint16_t* out = at(problem.out_operand());
    for_windows(p, num_threads, [&](const Window& window) {
      if (format == DType::Float16 && columns) {
        HWY_DYNAMIC_DISPATCH(Float16ColumnWindow)(p, lhs, rhs, bias, out, window);
      } else if (format == DType::Float16) {
        HWY_DYNAMIC_DISPATCH(Float16DotWindow)(p, lhs, rhs, bias, out, window);
      } else if (columns) {
        HWY_DYNAMIC_DISPATCH(BFloat16ColumnWindow)(p, lhs, rhs, bias, out, window);
      } else {
        HWY_DYNAMIC_DISPATCH(BFloat16DotWindow)(p, lhs, rhs, bias, out, window);
      }
    });
  }
};

}  // namespace

KernelPlan plan_skinny_matmul(const MatMulProblem& problem, int num_threads) {
  if (!is_half_or_single_precision(problem.dtype)) {
    return KernelPlan::reject("only half and single precision");
  }
  if (!problem.batch.empty()) return KernelPlan::reject("batched");
  const bool is_half = is_half_precision(problem.dtype);
  SkinnyMatMul p{problem.m,          problem.n,       problem.k,         problem.lhs_row,
                 problem.lhs_column, problem.rhs_row, problem.rhs_column};
  if (is_half) p.lhs_row = p.k, p.lhs_column = 1;
  if (p.m * p.n == 0 || p.k == 0) return KernelPlan::reject("empty product");
  const bool columns = p.rhs_column == 1;
  const bool dots = !columns && p.rhs_row == 1 && p.lhs_column == 1;
  if (!columns && !dots) return KernelPlan::reject("operand layouts");
  const std::int64_t max_rows = columns ? kMaxColumnRows : kMaxDotRows;
  if (p.m > max_rows) return KernelPlan::reject(str_cat("more than ", max_rows, " rows"));
  if (dots && p.k < kMinDotDepth) return KernelPlan::reject("short dot products");

  KernelPlan plan;
  plan.detail = columns ? "column tiles" : "dot products";
  if (is_half) {
    HalfSkinnyMatMul matmul{p, problem, columns, num_threads};
    plan.scratch_bytes = matmul.lhs_bytes() + (problem.has_bias ? matmul.bias_bytes() : 0);
    plan.detail += str_cat(", ", problem.dtype, " converted where it is loaded");
    plan.run = std::move(matmul);
    return plan;
  }
  plan.scratch_bytes = problem.finish_scratch() * static_cast<std::size_t>(num_threads);
  plan.run = FloatSkinnyMatMul{p, problem, columns, num_threads};
  return plan;
}

}  // namespace pando::cpu
#endif  // HWY_ONCE
