// GroupedMatMul and GroupedOuter: a product for each group of rows, whose sizes the program
// computes.
#include <algorithm>

#include "pando/backends/cpu/kernel_table.hpp"
#include "pando/backends/cpu/kernels/element.hpp"
#include "pando/backends/cpu/kernels/index.hpp"
#include "pando/backends/cpu/kernels/through_float32.hpp"
#include "pando/backends/cpu/onednn/onednn_gemm.hpp"
#include "pando/backends/cpu/parallel.hpp"

namespace pando::cpu {
namespace {

/// Multiply-adds that are worth a thread of their own.
constexpr std::int64_t kMinTermsPerPart = 1 << 17;
/// Columns that are worth a thread of their own: oneDNN's kernels compute about so many together.
constexpr std::int64_t kMinColumnsPerPart = 64;

/// Elements between rows and between columns of a matrix, of which one is 1.
struct MatrixStrides {
  std::int64_t row = 0, column = 1;

  MatrixStrides swapped() const { return {column, row}; }
};

template <class T>
struct Matrix {
  const T* data;
  MatrixStrides strides;

  T at(std::int64_t i, std::int64_t j) const { return data[i * strides.row + j * strides.column]; }
};

/// A matrix with `columns` columns. Both strides of a single column may be 1.
GemmOperand gemm_operand(const Matrix<float>& matrix, std::int64_t columns) {
  const MatrixStrides& strides = matrix.strides;
  const bool is_in_rows = strides.column == 1 && strides.row >= columns;
  return {matrix.data, is_in_rows ? strides.row : strides.column, !is_in_rows};
}

/// c (m, n) = a (m, k) b (k, n)
void multiply(std::int64_t m, std::int64_t n, std::int64_t k, const Matrix<float>& a,
              const Matrix<float>& b, float* c, std::int64_t c_row) {
  onednn_gemm(m, n, k, gemm_operand(a, k), gemm_operand(b, n), c, c_row);
}
void multiply(std::int64_t m, std::int64_t n, std::int64_t k, const Matrix<double>& a,
              const Matrix<double>& b, double* c, std::int64_t c_row) {
  for (std::int64_t i = 0; i < m; ++i) {
    double* row = c + i * c_row;
    std::fill_n(row, n, 0.0);
    for (std::int64_t l = 0; l < k; ++l) {
      const double factor = a.at(i, l);
      for (std::int64_t j = 0; j < n; ++j) row[j] += factor * b.at(l, j);
    }
  }
}

struct GroupsProblem {
  std::int64_t rows = 0, left = 0, right = 0, groups = 0;
  MatrixStrides first, second;
  std::int64_t group_stride = 0;  // of the second operand, if it has matrices
  DType ends_dtype = DType::Int32;
  int threads = 1;

  /// How many of `count` rows or columns, at least `least`, are worth a thread of their own.
  std::int64_t grain(std::int64_t count, std::int64_t least) const {
    const std::int64_t terms = rows * left * right / std::max<std::int64_t>(1, count);
    return std::max(least, kMinTermsPerPart / std::max<std::int64_t>(1, terms));
  }

  /// Calls body(group, begin, end) for each group, also empty ones, and returns the last end.
  template <class Body>
  std::int64_t for_each_group(const std::byte* ends, const Body& body) const {
    const IndexReader end_of(ends, ends_dtype);
    std::int64_t begin = 0;
    for (std::int64_t group = 0; group < groups; ++group) {
      const std::int64_t end = std::clamp(end_of[group], begin, rows);
      body(group, begin, end);
      begin = end;
    }
    return begin;
  }
};

/// Rows [first, last) of the output.
template <class T>
void multiply_rows(const GroupsProblem& p, std::byte* const* operands, std::int64_t first,
                   std::int64_t last) {
  const T* x = operand_in<T>(operands, 0);
  const T* w = operand_in<T>(operands, 1);
  T* out = operand_out<T>(operands, 3);
  const std::int64_t grouped =
      p.for_each_group(operands[2], [&](std::int64_t group, std::int64_t begin, std::int64_t end) {
        begin = std::max(begin, first);
        end = std::min(end, last);
        if (begin >= end) return;
        multiply(end - begin, p.right, p.left, {x + begin * p.first.row, p.first},
                 {w + group * p.group_stride, p.second}, out + begin * p.right, p.right);
      });
  const std::int64_t rest = std::max(first, grouped);
  if (rest < last) std::fill_n(out + rest * p.right, (last - rest) * p.right, T{});
}

/// Columns [first, last) of the matrices of all groups.
template <class T>
void multiply_columns(const GroupsProblem& p, std::byte* const* operands, std::int64_t first,
                      std::int64_t last) {
  const T* x = operand_in<T>(operands, 0);
  const T* y = operand_in<T>(operands, 1);
  T* out = operand_out<T>(operands, 3);
  p.for_each_group(operands[2], [&](std::int64_t group, std::int64_t begin, std::int64_t end) {
    T* matrix = out + group * p.left * p.right + first;
    if (begin < end) {
      multiply(p.left, last - first, end - begin, {x + begin * p.first.row, p.first.swapped()},
               {y + begin * p.second.row + first * p.second.column, p.second}, matrix, p.right);
      return;
    }
    for (std::int64_t row = 0; row < p.left; ++row) {
      std::fill_n(matrix + row * p.right, last - first, T{});
    }
  });
}

/// The strides of the last two axes.
MatrixStrides matrix_strides(const OperandDesc& matrix) {
  return {matrix.strides[matrix.strides.size() - 2], matrix.strides.back()};
}

GroupsProblem problem_of(const KernelRequest& request) {
  const OperandDesc &left = request.input(0), &right = request.input(1);
  GroupsProblem p;
  p.rows = left.shape[0];
  p.left = left.shape[1];
  p.right = right.shape.back();
  p.groups = request.input(2).shape[0];
  p.first = matrix_strides(left);
  p.second = matrix_strides(right);
  p.group_stride = right.strides[0];
  p.ends_dtype = request.input(2).dtype;
  p.threads = request.num_threads;
  return p;
}

/// Computes body(T, problem, operands, first, last) for parts of [0, count) with at least `least`.
template <class Body>
KernelPlan plan_of_parts(const KernelRequest& request, const GroupsProblem& p, std::int64_t count,
                         std::int64_t least, const Body& body) {
  KernelPlan plan;
  const std::int64_t grain = p.grain(count, least);
  const auto use = [&]<class T>(T) {
    plan.run = [=](std::byte* const* operands, std::byte*) {
      parallel_for(p.threads, count, grain, [&](std::int64_t first, std::int64_t last) {
        body(T{}, p, operands, first, last);
      });
    };
  };
  const DType dtype = request.input(0).dtype;
  return dispatch_single_or_double(dtype, use) ? plan
                                               : KernelPlan::reject(unsupported_dtype(dtype));
}

KernelPlan make_grouped_matmul(const KernelRequest& request) {
  const GroupsProblem p = problem_of(request);
  return plan_of_parts(request, p, p.rows, 1, []<class T>(T, const auto&... arguments) {
    multiply_rows<T>(arguments...);
  });
}

KernelPlan make_grouped_outer(const KernelRequest& request) {
  const GroupsProblem p = problem_of(request);
  return plan_of_parts(
      request, p, p.right, kMinColumnsPerPart,
      []<class T>(T, const auto&... arguments) { multiply_columns<T>(arguments...); });
}

}  // namespace

void register_grouped_matmul_kernels(KernelTable& table) {
  table["GroupedMatMul"] = {
      {{"groups", make_grouped_matmul}, {"half", through_float32<make_grouped_matmul>}},
      AcceptedLayout::MatrixAnyOrder};
  table["GroupedOuter"] = {
      {{"groups", make_grouped_outer}, {"half", through_float32<make_grouped_outer>}},
      AcceptedLayout::MatrixAnyOrder};
}

}  // namespace pando::cpu
