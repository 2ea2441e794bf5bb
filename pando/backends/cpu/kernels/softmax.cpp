// Softmax and SoftmaxGrad over the flattened dimensions from `axis` on.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "pando/backends/cpu/kernel_table.hpp"
#include "pando/backends/cpu/kernels/element.hpp"
#include "pando/backends/cpu/kernels/float_rows.hpp"
#include "pando/backends/cpu/kernels/softmax_rows.hpp"
#include "pando/base/band.hpp"
#include "pando/base/error.hpp"

namespace pando::cpu {
namespace {

void softmax_row(const double* in, double* out, std::int64_t count, double scale) {
  double max = -std::numeric_limits<double>::infinity();
  for (std::int64_t i = 0; i < count; ++i) max = std::max(max, in[i]);
  double total = 0;
  for (std::int64_t i = 0; i < count; ++i) total += out[i] = std::exp(scale * (in[i] - max));
  for (std::int64_t i = 0; i < count; ++i) out[i] /= total;
}

void softmax_grad_row(const double* out, const double* g, double* dx, std::int64_t count,
                      double scale) {
  double total = 0;
  for (std::int64_t i = 0; i < count; ++i) total += out[i] * g[i];
  for (std::int64_t i = 0; i < count; ++i) dx[i] = scale * out[i] * (g[i] - total);
}

/// The rows of an operand, and the part of each that the op is about.
struct SoftmaxRows {
  std::int64_t count = 1, columns = 1;
  std::int64_t rows_of_matrix = 1;
  std::optional<Band> band;
  double scale = 1;

  IndexRange range(std::int64_t row) const {
    // Ops refuse bands that leave rows empty.
    return band ? band->columns(row % rows_of_matrix, columns) : IndexRange{0, columns};
  }
};

SoftmaxRows rows_of(const KernelRequest& request) {
  const Shape& shape = request.input(0).shape;
  const auto rank = static_cast<std::int64_t>(shape.size());
  const std::int64_t axis =
      normalise_axis(request.attributes().integer("axis"), rank, request.spec.kind.c_str());
  SoftmaxRows rows;
  for (std::int64_t d = 0; d < rank; ++d) {
    (d < axis ? rows.count : rows.columns) *= shape[static_cast<std::size_t>(d)];
  }
  rows.band = band_attribute(request.attributes(), "band");
  if (rows.band) rows.rows_of_matrix = shape[shape.size() - 2];
  rows.scale = request.attributes().number_or("scale", 1);
  return rows;
}

template <class T>
void zero_outside(T* row, const IndexRange& range, std::int64_t columns) {
  std::fill(row, row + range.begin, T{});
  std::fill(row + range.end, row + columns, T{});
}

std::string check_same(const KernelRequest& request) {
  for (const auto* list : {&request.spec.inputs, &request.spec.outputs}) {
    for (const OperandDesc& operand : *list) {
      if (operand.dtype != request.input(0).dtype || operand.shape != request.input(0).shape) {
        return "operands differ in shape or dtype";
      }
    }
  }
  return "";
}

KernelPlan make_softmax(const KernelRequest& request) {
  if (std::string fault = check_same(request); !fault.empty()) return KernelPlan::reject(fault);
  const SoftmaxRows rows = rows_of(request);
  const int threads = request.num_threads;
  KernelPlan plan;
  const DType dtype = request.input(0).dtype;
  const bool known = dispatch_float(dtype, [&]<class T>(T) {
    if constexpr (kIsHalfPrecision<T>) {
      plan.scratch_bytes = static_cast<std::size_t>(threads * rows.columns) * sizeof(float);
    }
    plan.run = [rows, threads](std::byte* const* operands, std::byte* scratch) {
      const T* in = operand_in<T>(operands, 0);
      T* out = operand_out<T>(operands, 1);
      parallel_slots(threads, rows.count, row_grain(rows.columns, 1 << 13),
                     [&](std::int64_t slot, std::int64_t begin, std::int64_t end) {
                       float* buffer = reinterpret_cast<float*>(scratch) + slot * rows.columns;
                       for (std::int64_t r = begin; r < end; ++r) {
                         const IndexRange range = rows.range(r);
                         const std::int64_t count = range.size();
                         const T* x = in + r * rows.columns + range.begin;
                         T* y = out + r * rows.columns + range.begin;
                         if constexpr (std::is_same_v<T, double>) {
                           softmax_row(x, y, count, rows.scale);
                         } else {
                           float* target = begin_row(y, buffer);
                           softmax_row_f32(read_row(x, buffer, count), target, count,
                                           static_cast<float>(rows.scale));
                           finish_row(y, target, count);
                         }
                         zero_outside(out + r * rows.columns, range, rows.columns);
                       }
                     });
    };
  });
  return known ? plan : KernelPlan::reject(unsupported_dtype(dtype));
}

KernelPlan make_softmax_grad(const KernelRequest& request) {
  if (std::string fault = check_same(request); !fault.empty()) return KernelPlan::reject(fault);
  const SoftmaxRows rows = rows_of(request);
  const int threads = request.num_threads;
  KernelPlan plan;
  const DType dtype = request.input(0).dtype;
  const bool known = dispatch_float(dtype, [&]<class T>(T) {
    if constexpr (kIsHalfPrecision<T>) {
      plan.scratch_bytes = static_cast<std::size_t>(2 * threads * rows.columns) * sizeof(float);
    }
    plan.run = [rows, threads](std::byte* const* operands, std::byte* scratch) {
      const T* out = operand_in<T>(operands, 0);
      const T* g = operand_in<T>(operands, 1);
      T* dx = operand_out<T>(operands, 2);
      parallel_slots(threads, rows.count, row_grain(rows.columns, 1 << 14),
                     [&](std::int64_t slot, std::int64_t begin, std::int64_t end) {
                       float* a = reinterpret_cast<float*>(scratch) + 2 * slot * rows.columns;
                       float* b = a + rows.columns;
                       for (std::int64_t r = begin; r < end; ++r) {
                         const IndexRange range = rows.range(r);
                         const std::int64_t count = range.size();
                         const std::int64_t at = r * rows.columns + range.begin;
                         if constexpr (std::is_same_v<T, double>) {
                           softmax_grad_row(out + at, g + at, dx + at, count, rows.scale);
                         } else {
                           float* target = begin_row(dx + at, b);
                           softmax_grad_row_f32(read_row(out + at, a, count),
                                                read_row(g + at, b, count), target, count,
                                                static_cast<float>(rows.scale));
                           finish_row(dx + at, target, count);
                         }
                         zero_outside(dx + r * rows.columns, range, rows.columns);
                       }
                     });
    };
  });
  return known ? plan : KernelPlan::reject(unsupported_dtype(dtype));
}

}  // namespace

void register_softmax_kernels(KernelTable& table) {
  table["Softmax"] = {{{"rows", make_softmax}}, AcceptedLayout::Contiguous, {0}};
  table["SoftmaxGrad"] = {{{"rows", make_softmax_grad}}, AcceptedLayout::Contiguous, {0, 1}};
}

}  // namespace pando::cpu
