// Softmax and SoftmaxGrad over the flattened dimensions from `axis` on.
#include <cmath>
#include <limits>

#include "pando/backends/cpu/kernel_table.hpp"
#include "pando/backends/cpu/kernels/element.hpp"
#include "pando/backends/cpu/kernels/float_rows.hpp"
#include "pando/backends/cpu/kernels/softmax_rows.hpp"
#include "pando/base/error.hpp"

namespace pando::cpu {
namespace {

void softmax_row(const double* in, double* out, std::int64_t count) {
  double max = -std::numeric_limits<double>::infinity();
  for (std::int64_t i = 0; i < count; ++i) max = std::max(max, in[i]);
  double total = 0;
  for (std::int64_t i = 0; i < count; ++i) total += out[i] = std::exp(in[i] - max);
  for (std::int64_t i = 0; i < count; ++i) out[i] /= total;
}

void softmax_grad_row(const double* out, const double* g, double* dx, std::int64_t count) {
  double total = 0;
  for (std::int64_t i = 0; i < count; ++i) total += out[i] * g[i];
  for (std::int64_t i = 0; i < count; ++i) dx[i] = out[i] * (g[i] - total);
}

struct RowShape {
  std::int64_t rows = 1, columns = 1;
};

RowShape rows_from_axis(const KernelRequest& request) {
  const Shape& shape = request.input(0).shape;
  const auto rank = static_cast<std::int64_t>(shape.size());
  const std::int64_t axis =
      normalise_axis(request.attributes().integer("axis"), rank, request.spec.kind.c_str());
  RowShape result;
  for (std::int64_t d = 0; d < rank; ++d) {
    (d < axis ? result.rows : result.columns) *= shape[static_cast<std::size_t>(d)];
  }
  return result;
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
  const auto [rows, columns] = rows_from_axis(request);
  const int threads = request.num_threads;
  KernelPlan plan;
  const DType dtype = request.input(0).dtype;
  const bool known = dispatch_float(dtype, [&]<class T>(T) {
    if constexpr (std::is_same_v<T, Half>) {
      plan.scratch_bytes = static_cast<std::size_t>(threads * columns) * sizeof(float);
    }
    plan.run = [rows = rows, columns = columns, threads](std::byte* const* operands,
                                                         std::byte* scratch) {
      const T* in = operand_in<T>(operands, 0);
      T* out = operand_out<T>(operands, 1);
      parallel_slots(threads, rows, row_grain(columns, 1 << 13),
                     [&](std::int64_t slot, std::int64_t begin, std::int64_t end) {
                       float* buffer = reinterpret_cast<float*>(scratch) + slot * columns;
                       for (std::int64_t r = begin; r < end; ++r) {
                         const T* x = in + r * columns;
                         T* y = out + r * columns;
                         if constexpr (std::is_same_v<T, double>) {
                           softmax_row(x, y, columns);
                         } else {
                           float* target = begin_row(y, buffer);
                           softmax_row_f32(read_row(x, buffer, columns), target, columns);
                           finish_row(y, target, columns);
                         }
                       }
                     });
    };
  });
  return known ? plan : KernelPlan::reject(unsupported_dtype(dtype));
}

KernelPlan make_softmax_grad(const KernelRequest& request) {
  if (std::string fault = check_same(request); !fault.empty()) return KernelPlan::reject(fault);
  const auto [rows, columns] = rows_from_axis(request);
  const int threads = request.num_threads;
  KernelPlan plan;
  const DType dtype = request.input(0).dtype;
  const bool known = dispatch_float(dtype, [&]<class T>(T) {
    if constexpr (std::is_same_v<T, Half>) {
      plan.scratch_bytes = static_cast<std::size_t>(2 * threads * columns) * sizeof(float);
    }
    plan.run = [rows = rows, columns = columns, threads](std::byte* const* operands,
                                                         std::byte* scratch) {
      const T* out = operand_in<T>(operands, 0);
      const T* g = operand_in<T>(operands, 1);
      T* dx = operand_out<T>(operands, 2);
      parallel_slots(threads, rows, row_grain(columns, 1 << 14),
                     [&](std::int64_t slot, std::int64_t begin, std::int64_t end) {
                       float* a = reinterpret_cast<float*>(scratch) + 2 * slot * columns;
                       float* b = a + columns;
                       for (std::int64_t r = begin; r < end; ++r) {
                         const std::int64_t at = r * columns;
                         if constexpr (std::is_same_v<T, double>) {
                           softmax_grad_row(out + at, g + at, dx + at, columns);
                         } else {
                           float* target = begin_row(dx + at, b);
                           softmax_grad_row_f32(read_row(out + at, a, columns),
                                                read_row(g + at, b, columns), target, columns);
                           finish_row(dx + at, target, columns);
                         }
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
