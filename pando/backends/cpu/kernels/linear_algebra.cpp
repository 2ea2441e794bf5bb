// TriangularSolve and Cholesky: rows added to rows.
#include <algorithm>
#include <cmath>
#include <limits>

#include "pando/backends/cpu/kernel_table.hpp"
#include "pando/backends/cpu/kernels/element.hpp"
#include "pando/backends/cpu/kernels/float_rows.hpp"
#include "pando/backends/cpu/kernels/through_float32.hpp"
#include "pando/base/error.hpp"

namespace pando::cpu {
namespace {

/// So many columns of a system are solved together: they stay in the cache.
constexpr std::int64_t kBlock = 64;

struct SolveProblem {
  std::int64_t batch = 1, size = 0, columns = 0;
  bool upper = false, transpose = false, unit = false;
  int threads = 1;
};

/// to[i] -= factor * from[i]
template <class T>
void subtract_row(T factor, const T* from, T* to, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) to[i] -= factor * from[i];
}

/// Columns [begin, end) of x, which holds b.
template <class T>
void solve_columns(const SolveProblem& p, const T* matrix, T* x, std::int64_t begin,
                   std::int64_t end) {
  const bool is_forward = p.upper == p.transpose;
  const auto at = [&](std::int64_t i, std::int64_t j) {
    return p.transpose ? matrix[j * p.size + i] : matrix[i * p.size + j];
  };
  for (std::int64_t step = 0; step < p.size; ++step) {
    const std::int64_t i = is_forward ? step : p.size - 1 - step;
    T* row = x + i * p.columns;
    for (std::int64_t k = 0; k < step; ++k) {
      const std::int64_t j = is_forward ? k : p.size - 1 - k;
      subtract_row(at(i, j), x + j * p.columns + begin, row + begin, end - begin);
    }
    if (p.unit) continue;
    const T diagonal = at(i, i);
    for (std::int64_t c = begin; c < end; ++c) row[c] /= diagonal;
  }
}

KernelPlan make_triangular_solve(const KernelRequest& request) {
  const Shape& shape = request.input(1).shape;
  if (shape.size() < 2) return KernelPlan::reject("wanted matrices");
  SolveProblem p;
  p.size = shape[shape.size() - 2];
  p.columns = shape.back();
  p.batch = num_elements(Shape(shape.begin(), shape.end() - 2));
  p.upper = request.attributes().flag_or("upper", false);
  p.transpose = request.attributes().flag_or("transpose", false);
  p.unit = request.attributes().flag_or("unit_diagonal", false);
  p.threads = request.num_threads;
  KernelPlan plan;
  const auto use = [&]<class T>(T) {
    plan.run = [p](std::byte* const* operands, std::byte*) {
      const std::int64_t blocks = (p.columns + kBlock - 1) / kBlock;
      parallel_for(p.threads, p.batch * blocks, row_grain(p.size * p.size * kBlock / 2),
                   [&](std::int64_t first, std::int64_t last) {
                     for (std::int64_t i = first; i < last; ++i) {
                       const std::int64_t b = i / blocks, begin = i % blocks * kBlock;
                       const std::int64_t end = std::min(p.columns, begin + kBlock);
                       const T* from = operand_in<T>(operands, 1) + b * p.size * p.columns;
                       T* x = operand_out<T>(operands, 2) + b * p.size * p.columns;
                       for (std::int64_t row = 0; row < p.size && from != x; ++row) {
                         std::copy(from + row * p.columns + begin, from + row * p.columns + end,
                                   x + row * p.columns + begin);
                       }
                       solve_columns(p, operand_in<T>(operands, 0) + b * p.size * p.size, x, begin,
                                     end);
                     }
                   });
    };
  };
  const DType dtype = request.input(0).dtype;
  return dispatch_single_or_double(dtype, use) ? plan
                                               : KernelPlan::reject(unsupported_dtype(dtype));
}

/// `factor` becomes the factor of (t + t^T) / 2; `column` has room for n numbers.
template <class T>
void factorise(const T* t, T* factor, T* column, std::int64_t n, int threads) {
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      factor[i * n + j] = j <= i ? (t[i * n + j] + t[j * n + i]) / 2 : T{};
    }
  }
  for (std::int64_t k = 0; k < n; ++k) {
    const T pivot = factor[k * n + k];
    if (!(pivot > 0)) {
      std::fill_n(factor, n * n, std::numeric_limits<T>::quiet_NaN());
      return;
    }
    const T root = std::sqrt(pivot);
    factor[k * n + k] = root;
    for (std::int64_t i = k + 1; i < n; ++i) column[i] = factor[i * n + k] /= root;
    parallel_for(threads, n - k - 1, row_grain((n - k) / 2),
                 [&](std::int64_t begin, std::int64_t end) {
                   for (std::int64_t i = k + 1 + begin; i < k + 1 + end; ++i) {
                     subtract_row(column[i], column + k + 1, factor + i * n + k + 1, i - k);
                   }
                 });
  }
}

KernelPlan make_cholesky(const KernelRequest& request) {
  const Shape& shape = request.input(0).shape;
  if (shape.size() < 2) return KernelPlan::reject("wanted matrices");
  const std::int64_t n = shape.back();
  const std::int64_t batch = num_elements(Shape(shape.begin(), shape.end() - 2));
  const int threads = request.num_threads;
  KernelPlan plan;
  const auto use = [&]<class T>(T) {
    plan.scratch_bytes = static_cast<std::size_t>(n * threads) * sizeof(T);
    plan.run = [=](std::byte* const* operands, std::byte* scratch) {
      parallel_slots(threads, batch, row_grain(n * n * n / 3),
                     [&](std::int64_t slot, std::int64_t begin, std::int64_t end) {
                       for (std::int64_t b = begin; b < end; ++b) {
                         factorise(operand_in<T>(operands, 0) + b * n * n,
                                   operand_out<T>(operands, 1) + b * n * n,
                                   reinterpret_cast<T*>(scratch) + slot * n, n,
                                   batch == 1 ? threads : 1);
                       }
                     });
    };
  };
  const DType dtype = request.input(0).dtype;
  return dispatch_single_or_double(dtype, use) ? plan
                                               : KernelPlan::reject(unsupported_dtype(dtype));
}

}  // namespace

void register_linear_algebra_kernels(KernelTable& table) {
  table["TriangularSolve"] = {
      {{"rows", make_triangular_solve}, {"half", through_float32<make_triangular_solve>}},
      AcceptedLayout::Contiguous,
      {1}};
  table["Cholesky"] = {{{"rows", make_cholesky}, {"half", through_float32<make_cholesky>}}};
}

}  // namespace pando::cpu
