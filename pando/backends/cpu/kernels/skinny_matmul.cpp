// float32 products with few rows, where packing the right operand would cost as much as the
// product: 8 x 784 by 784 x 512.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "pando/backends/cpu/kernels/skinny_matmul.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>

#include "pando/backends/cpu/kernels/masked_load-inl.h"
#include "pando/backends/cpu/kernels/matmul.hpp"
#include "pando/backends/cpu/parallel.hpp"
#include "pando/backends/cpu/unroll.hpp"
#include "pando/base/error.hpp"

#ifndef PANDO_BACKENDS_CPU_KERNELS_SKINNY_MATMUL_ONCE
#define PANDO_BACKENDS_CPU_KERNELS_SKINNY_MATMUL_ONCE
namespace pando::cpu {

struct SkinnyMatMul {
  std::int64_t m, n, k;
  std::int64_t lhs_row, lhs_column, rhs_row, rhs_column;
};

/// Rows [row_begin, row_end) and columns [column_begin, column_end) of the product.
struct Window {
  std::int64_t row_begin, row_end, column_begin, column_end;
};

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

/// R rows by two vectors of columns over `depth` steps of k. Full: both vectors are whole.
template <int R, bool Full>
HWY_INLINE void ColumnTile(const SkinnyMatMul& p, const float* lhs, const float* rhs,
                           std::int64_t depth, std::int64_t columns, bool first, const float* bias,
                           float* out) {
  const D d;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto mask0 = hn::FirstN(d, static_cast<std::size_t>(std::min(lanes, columns)));
  const auto mask1 =
      hn::FirstN(d, static_cast<std::size_t>(std::max<std::int64_t>(0, columns - lanes)));
  const auto load = [&](auto mask, const float* from) HWY_ATTR {
    if constexpr (Full) return hn::LoadU(d, from);
    return LoadFirst(mask, d, from);
  };
  V acc0[R], acc1[R];
  PANDO_UNROLL for (int r = 0; r < R; ++r) {
    if (!first) {
      acc0[r] = load(mask0, out + r * p.n);
      acc1[r] = load(mask1, out + r * p.n + lanes);
    } else if (bias != nullptr) {
      acc0[r] = load(mask0, bias);
      acc1[r] = load(mask1, bias + lanes);
    } else {
      acc0[r] = acc1[r] = hn::Zero(d);
    }
  }
  for (std::int64_t k = 0; k < depth; ++k) {
    const V b0 = load(mask0, rhs);
    const V b1 = load(mask1, rhs + lanes);
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
      hn::StoreU(acc0[r], d, out + r * p.n);
      hn::StoreU(acc1[r], d, out + r * p.n + lanes);
    } else {
      hn::BlendedStore(acc0[r], mask0, d, out + r * p.n);
      hn::BlendedStore(acc1[r], mask1, d, out + r * p.n + lanes);
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

/// rhs has contiguous rows.
void ColumnWindow(const SkinnyMatMul& p, const float* lhs, const float* rhs, const float* bias,
                  float* out, const Window& w) {
  const D d;
  const std::int64_t width = 2 * static_cast<std::int64_t>(hn::Lanes(d));
  for (std::int64_t n = w.column_begin; n < w.column_end; n += width) {
    const std::int64_t columns = std::min(width, w.column_end - n);
    std::int64_t k = 0;
    do {
      const std::int64_t depth = std::min(kDepth, p.k - k);
      for (std::int64_t m = w.row_begin; m < w.row_end;) {
        const std::int64_t group = GroupRows(w.row_end - m, kMaxRows);
        WithRows<kMaxRows>(group, [&](auto rows) HWY_ATTR {
          const float* a = lhs + m * p.lhs_row + k * p.lhs_column;
          const float* b = rhs + k * p.rhs_row + n;
          const float* c = bias == nullptr ? nullptr : bias + n;
          float* o = out + m * p.n + n;
          if (columns == width) {
            ColumnTile<rows.value, true>(p, a, b, depth, columns, k == 0, c, o);
          } else {
            ColumnTile<rows.value, false>(p, a, b, depth, columns, k == 0, c, o);
          }
        });
        m += group;
      }
      k += depth;
    } while (k < p.k);
  }
}

/// R rows of lhs against C rows of the transposed rhs, both contiguous along k.
template <int R, int C>
HWY_INLINE void DotTile(const SkinnyMatMul& p, const float* lhs, const float* rhs,
                        const float* bias, float* out) {
  const D d;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(d));
  V acc[R][C];
  PANDO_UNROLL for (int r = 0; r < R; ++r) {
    PANDO_UNROLL for (int c = 0; c < C; ++c) acc[r][c] = hn::Zero(d);
  }
  std::int64_t k = 0;
  for (; k + lanes <= p.k; k += lanes) {
    V b[C];
    PANDO_UNROLL for (int c = 0; c < C; ++c) b[c] = hn::LoadU(d, rhs + c * p.rhs_column + k);
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
        acc[r][c] = hn::MulAdd(a, LoadFirst(mask, d, rhs + c * p.rhs_column + k), acc[r][c]);
      }
    }
  }
  PANDO_UNROLL for (int r = 0; r < R; ++r) {
    PANDO_UNROLL for (int c = 0; c < C; ++c) {
      out[r * p.n + c] =
          hn::GetLane(hn::SumOfLanes(d, acc[r][c])) + (bias == nullptr ? 0.f : bias[c]);
    }
  }
}

/// rhs has contiguous columns and lhs contiguous rows.
void DotWindow(const SkinnyMatMul& p, const float* lhs, const float* rhs, const float* bias,
               float* out, const Window& w) {
  constexpr int kColumns = 2;
  for (std::int64_t n = w.column_begin; n < w.column_end;) {
    const bool pair = n + kColumns <= w.column_end;
    const float* b = rhs + n * p.rhs_column;
    const float* c = bias == nullptr ? nullptr : bias + n;
    for (std::int64_t m = w.row_begin; m < w.row_end;) {
      const std::int64_t group = GroupRows(w.row_end - m, kMaxDotRows);
      WithRows<kMaxDotRows>(group, [&](auto rows) HWY_ATTR {
        const float* a = lhs + m * p.lhs_row;
        float* o = out + m * p.n + n;
        if (pair) {
          DotTile<rows.value, kColumns>(p, a, b, c, o);
        } else {
          DotTile<rows.value, 1>(p, a, b, c, o);
        }
      });
      m += group;
    }
    n += pair ? kColumns : 1;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace pando::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pando::cpu {
namespace {

HWY_EXPORT(ColumnWindow);
HWY_EXPORT(DotWindow);

// Where the packed product of oneDNN overtakes (measured with AVX2).
constexpr std::int64_t kMaxColumnRows = 32;
constexpr std::int64_t kMaxDotRows = 16;
constexpr std::int64_t kMinDotDepth = 64;
constexpr std::int64_t kColumnStep = 32;
constexpr double kMinimumFlopsPerTask = 3e5;

std::int64_t task_grain(double flops_per_item) {
  return std::max<std::int64_t>(
      1, static_cast<std::int64_t>(kMinimumFlopsPerTask / std::max(1.0, flops_per_item)));
}

}  // namespace

KernelPlan plan_skinny_matmul(const MatMulProblem& problem, int num_threads) {
  if (!problem.batch.empty()) return KernelPlan::reject("batched");
  const SkinnyMatMul p{problem.m,          problem.n,       problem.k,         problem.lhs_row,
                       problem.lhs_column, problem.rhs_row, problem.rhs_column};
  if (p.m * p.n == 0 || p.k == 0) return KernelPlan::reject("empty product");
  const bool columns = p.rhs_column == 1;
  const bool dots = !columns && p.rhs_row == 1 && p.lhs_column == 1;
  if (!columns && !dots) return KernelPlan::reject("operand layouts");
  const std::int64_t max_rows = columns ? kMaxColumnRows : kMaxDotRows;
  if (p.m > max_rows) return KernelPlan::reject(str_cat("more than ", max_rows, " rows"));
  if (dots && p.k < kMinDotDepth) return KernelPlan::reject("short dot products");

  KernelPlan plan;
  plan.detail = columns ? "column tiles" : "dot products";
  plan.scratch_bytes = problem.finish_scratch() * static_cast<std::size_t>(num_threads);
  plan.run = [p, problem, columns, num_threads](std::byte* const* operands, std::byte* scratch) {
    const auto* lhs = reinterpret_cast<const float*>(operands[0]);
    const auto* rhs = reinterpret_cast<const float*>(operands[1]);
    const float* bias = problem.has_bias ? reinterpret_cast<const float*>(operands[2]) : nullptr;
    auto* out = reinterpret_cast<float*>(operands[problem.out_operand()]);
    const auto run_window = [&](const Window& window) {
      if (columns) {
        HWY_DYNAMIC_DISPATCH(ColumnWindow)(p, lhs, rhs, bias, out, window);
      } else {
        HWY_DYNAMIC_DISPATCH(DotWindow)(p, lhs, rhs, bias, out, window);
      }
      const auto mine = problem.finish_scratch() * static_cast<std::size_t>(thread_index());
      problem.finish(operands, scratch + mine,
                     {0, p.m, window.column_begin, window.column_end - window.column_begin});
    };
    const std::int64_t blocks = (p.n + kColumnStep - 1) / kColumnStep;
    parallel_for(num_threads, blocks, task_grain(2.0 * kColumnStep * double(p.m) * double(p.k)),
                 [&](std::int64_t begin, std::int64_t end) {
                   run_window({0, p.m, begin * kColumnStep, std::min(p.n, end * kColumnStep)});
                 });
  };
  return plan;
}

}  // namespace pando::cpu
#endif  // HWY_ONCE
