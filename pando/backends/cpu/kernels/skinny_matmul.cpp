// Products with few rows, where packing the right operand would cost as much as the product: 8 x
// 784 by 784 x 512. A right operand of half precision is converted where it is loaded.
#include <algorithm>

#include "pando/backends/cpu/kernels/half_rows.hpp"
#include "pando/backends/cpu/kernels/matmul.hpp"
#include "pando/backends/cpu/kernels/packed_panels.hpp"
#include "pando/backends/cpu/kernels/skinny_windows.hpp"
#include "pando/backends/cpu/parallel.hpp"
#include "pando/base/error.hpp"
#include "pando/base/half.hpp"

namespace pando::cpu {
namespace {

// Where the packed product of oneDNN overtakes (measured with AVX2); for dot products
// max_dot_rows().
constexpr std::int64_t kMaxColumnRows = 32;
constexpr std::int64_t kMinDotDepth = 64;
// Right operands of so few elements, in columns shorter than that, become rows before they are
// multiplied, which takes less time than a call of oneDNN.
constexpr std::int64_t kMaxShortElements = 4096;
constexpr std::int64_t kMaxPanelColumns = 32;
constexpr std::int64_t kColumnStep = 32;
// What a thread is woken for: some 5 us of arithmetic, or of reading the rhs from an outer cache.
constexpr double kMinimumFlopsPerTask = 3e5;
constexpr double kMinimumBytesPerTask = 2e5;
// Tiles of columns read a line of each row of the rhs, which is slow unless the rhs is in a cache.
constexpr std::int64_t kMinStreamedBytes = std::int64_t{4} << 20;
constexpr std::int64_t kMinStreamedColumns = 64;
static_assert(kMaxColumnRows <= kMaxTileRows);

SkinnyWay way_of(const SkinnyMatMul& p, DType dtype) {
  if (p.rhs_column != 1) return SkinnyWay::Dots;
  if (p.m > kMaxStreamedRows || p.n < kMinStreamedColumns) return SkinnyWay::Columns;
  const std::int64_t bytes = p.k * p.n * static_cast<std::int64_t>(dtype_bytes(dtype));
  return p.m == 1 || bytes >= kMinStreamedBytes ? SkinnyWay::Rows : SkinnyWay::Columns;
}

/// Blocks of columns that are worth a thread.
std::int64_t task_grain(const SkinnyMatMul& p, DType dtype) {
  const double elements = double(kColumnStep) * double(p.k);
  const double blocks = std::min(kMinimumFlopsPerTask / (2 * double(p.m) * elements),
                                 kMinimumBytesPerTask / (double(dtype_bytes(dtype)) * elements));
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(blocks));
}

/// Calls body(window) for windows of columns on several threads.
template <class Body>
void for_windows(const SkinnyMatMul& p, DType dtype, int num_threads, const Body& body) {
  const std::int64_t blocks = (p.n + kColumnStep - 1) / kColumnStep;
  parallel_for(num_threads, blocks, task_grain(p, dtype),
               [&](std::int64_t begin, std::int64_t end) {
                 body({0, p.m, begin * kColumnStep, std::min(p.n, end * kColumnStep)});
               });
}

/// The product in the window where the columns of the rhs are contiguous and shorter than
/// kMinDotDepth: a few at a time become rows, in the first cache level.
void run_short_columns(const SkinnyMatMul& p, const float* lhs, const float* rhs, const float* bias,
                       float* out, const Window& window) {
  alignas(64) float panel[kMinDotDepth * kMaxPanelColumns + kPanelSlack];
  const std::int64_t width = packed_tile().columns;
  SkinnyMatMul of_panel = p;
  of_panel.rhs_row = width;
  of_panel.rhs_column = 1;
  for (std::int64_t begin = window.column_begin; begin < window.column_end; begin += width) {
    const std::int64_t columns = std::min(width, window.column_end - begin);
    pack_columns({rhs + begin * p.rhs_column, DType::Float32, p.rhs_column, p.rhs_row}, columns,
                 p.k, panel);
    run_window(SkinnyWay::Columns, of_panel, lhs, panel, bias == nullptr ? nullptr : bias + begin,
               out + begin, {window.row_begin, window.row_end, 0, columns});
  }
}

struct FloatSkinnyMatMul {
  SkinnyMatMul p;
  MatMulProblem problem;
  SkinnyWay way;
  int num_threads;
  bool has_short_columns = false;

  void operator()(std::byte* const* operands, std::byte* scratch) const {
    const auto* lhs = reinterpret_cast<const float*>(operands[0]);
    const auto* rhs = reinterpret_cast<const float*>(operands[1]);
    const float* bias = problem.has_bias ? reinterpret_cast<const float*>(operands[2]) : nullptr;
    auto* out = reinterpret_cast<float*>(operands[problem.out_operand()]);
    for_windows(p, problem.dtype, num_threads, [&](const Window& window) {
      if (has_short_columns) {
        run_short_columns(p, lhs, rhs, bias, out, window);
      } else {
        run_window(way, p, lhs, rhs, bias, out, window);
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
  SkinnyWay way;
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
    for_windows(p, problem.dtype, num_threads, [&](const Window& window) {
      run_half_window(way, format, p, lhs, rhs, bias, out, window);
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
  const SkinnyWay way = way_of(p, problem.dtype);
  const bool dots = way == SkinnyWay::Dots;
  if (dots && (p.rhs_row != 1 || p.lhs_column != 1)) return KernelPlan::reject("operand layouts");
  const std::int64_t max_rows = dots ? max_dot_rows() : kMaxColumnRows;
  if (p.m > max_rows) return KernelPlan::reject(str_cat("more than ", max_rows, " rows"));
  const bool has_short_columns = dots && p.k < kMinDotDepth;
  if (has_short_columns && (is_half || p.n * p.k > kMaxShortElements)) {
    return KernelPlan::reject("short dot products");
  }

  KernelPlan plan;
  plan.detail = dots ? "dot products" : way == SkinnyWay::Rows ? "row by row" : "column tiles";
  if (is_half) {
    HalfSkinnyMatMul matmul{p, problem, way, num_threads};
    plan.scratch_bytes = matmul.lhs_bytes() + (problem.has_bias ? matmul.bias_bytes() : 0);
    plan.detail += str_cat(", ", problem.dtype, " converted where it is loaded");
    plan.run = std::move(matmul);
    return plan;
  }
  plan.scratch_bytes = problem.finish_scratch() * static_cast<std::size_t>(num_threads);
  if (has_short_columns) plan.detail = "short columns";
  plan.run = FloatSkinnyMatMul{p, problem, way, num_threads, has_short_columns};
  return plan;
}

}  // namespace pando::cpu
