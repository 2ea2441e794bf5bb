// Unfold and Fold: rows of windows copied out of a tensor, or added into one.
#include <algorithm>
#include <type_traits>

#include "pando/backends/cpu/kernel_table.hpp"
#include "pando/backends/cpu/kernels/element.hpp"
#include "pando/backends/cpu/kernels/float_rows.hpp"
#include "pando/backends/cpu/kernels/window_geometry.hpp"
#include "pando/base/error.hpp"

namespace pando::cpu {
namespace {

struct FoldProblem : WindowGeometry {
  std::int64_t planes = 0;  // (N, C)
  int threads = 1;

  /// Calls body(data row, or -1 outside of the data, first window, cells inside) for every cell of
  /// the kernel and every row of windows, in the order of the columns.
  template <class Body>
  void for_rows(const Body& body) const {
    for (std::int64_t cell = 0; cell < kernel_size(); ++cell) {
      const std::int64_t a = cell / (kernel[1] * kernel[2]);
      const std::int64_t b = cell / kernel[2] % kernel[1], c = cell % kernel[2];
      const Range range = inside(2, c);
      for (std::int64_t i = 0; i < result[0]; ++i) {
        const std::int64_t z = data_index(0, i, a);
        for (std::int64_t j = 0; j < result[1]; ++j) {
          const std::int64_t y = data_index(1, j, b);
          const bool is_inside = z >= 0 && z < data[0] && y >= 0 && y < data[1];
          const std::int64_t row = ((cell * result[0] + i) * result[1] + j) * result[2];
          const std::int64_t first = (z * data[1] + y) * data[2] + data_index(2, range.begin, c);
          body(first, row, is_inside ? range : Range{0, 0});
        }
      }
    }
  }
};

std::string parse_fold(const KernelRequest& request, const OperandDesc& data,
                       const OperandDesc& columns, FoldProblem& p) {
  if (data.dtype != columns.dtype) return "operand dtypes differ";
  if (data.shape.size() < 3 || columns.shape.size() != 3) {
    return "wanted data (N, C, spatial...) and columns of rank 3";
  }
  const Shape spatial(data.shape.begin() + 2, data.shape.end());
  Shape windows = spatial;
  const Ints& kernel = request.attributes().ints("kernel_size");
  const Ints& pads = request.attributes().ints("pads");
  const std::size_t rank = spatial.size();
  for (std::size_t d = 0; d < rank && kernel.size() == rank && pads.size() == 2 * rank; ++d) {
    const std::int64_t extent = request.attributes().ints("dilations")[d] * (kernel[d] - 1) + 1;
    windows[d] =
        (spatial[d] + pads[d] + pads[rank + d] - extent) / request.attributes().ints("strides")[d] +
        1;
  }
  p.planes = data.shape[0] * data.shape[1];
  p.threads = request.num_threads;
  std::string fault = read_windows(request.attributes(), spatial, windows, p);
  if (fault.empty() &&
      p.planes * p.kernel_size() * p.result_size() != num_elements(columns.shape)) {
    return str_cat("the columns ", operand_text(columns), " do not fit ", operand_text(data));
  }
  return fault;
}

KernelPlan make_unfold(const KernelRequest& request) {
  FoldProblem p;
  if (std::string fault = parse_fold(request, request.input(0), request.output(0), p);
      !fault.empty()) {
    return KernelPlan::reject(fault);
  }
  KernelPlan plan;
  dispatch_bytes(request.input(0).dtype, [&]<class T>(T) {
    plan.run = [p](std::byte* const* operands, std::byte*) {
      const std::int64_t columns = p.kernel_size() * p.result_size();
      parallel_for(p.threads, p.planes, row_grain(columns),
                   [&](std::int64_t begin, std::int64_t end) {
                     for (std::int64_t plane = begin; plane < end; ++plane) {
                       const T* data = operand_in<T>(operands, 0) + plane * p.data_size();
                       T* out = operand_out<T>(operands, 1) + plane * columns;
                       p.for_rows([&](std::int64_t first, std::int64_t row, FoldProblem::Range in) {
                         std::fill(out + row, out + row + in.begin, T{});
                         for (std::int64_t i = in.begin; i < in.end; ++i) {
                           out[row + i] = data[first + (i - in.begin) * p.stride[2]];
                         }
                         std::fill(out + row + in.end, out + row + p.result[2], T{});
                       });
                     }
                   });
    };
  });
  return plan;
}

template <class T>
KernelPlan plan_fold(const FoldProblem& p) {
  // Integers wrap.
  using Sum = typename std::conditional_t<std::is_integral_v<T>, std::make_unsigned<T>,
                                          std::type_identity<Compute<T>>>::type;
  constexpr bool kConverts = kIsFloatElement<T> && !std::is_floating_point_v<T>;
  const std::size_t slot =
      kConverts ? scratch_aligned(static_cast<std::size_t>(p.data_size()) * sizeof(Sum)) : 0;
  KernelPlan plan;
  plan.scratch_bytes = slot * static_cast<std::size_t>(p.threads);
  plan.run = [p, slot](std::byte* const* operands, std::byte* scratch) {
    const std::int64_t columns = p.kernel_size() * p.result_size();
    parallel_slots(p.threads, p.planes, row_grain(columns),
                   [&](std::int64_t s, std::int64_t begin, std::int64_t end) {
                     for (std::int64_t plane = begin; plane < end; ++plane) {
                       const T* from = operand_in<T>(operands, 0) + plane * columns;
                       T* data = operand_out<T>(operands, 1) + plane * p.data_size();
                       auto* sums = reinterpret_cast<Sum*>(
                           kConverts ? scratch + static_cast<std::size_t>(s) * slot
                                     : reinterpret_cast<std::byte*>(data));
                       std::fill_n(sums, p.data_size(), Sum{});
                       p.for_rows([&](std::int64_t first, std::int64_t row, FoldProblem::Range in) {
                         for (std::int64_t i = in.begin; i < in.end; ++i) {
                           Sum& sum = sums[first + (i - in.begin) * p.stride[2]];
                           sum = static_cast<Sum>(sum + static_cast<Sum>(from[row + i]));
                         }
                       });
                       if constexpr (kConverts) {
                         finish_row(data, sums, p.data_size());
                       }
                     }
                   });
  };
  return plan;
}

KernelPlan make_fold(const KernelRequest& request) {
  FoldProblem p;
  if (std::string fault = parse_fold(request, request.output(0), request.input(0), p);
      !fault.empty()) {
    return KernelPlan::reject(fault);
  }
  KernelPlan plan;
  const bool known =
      dispatch_arithmetic(request.input(0).dtype, [&]<class T>(T) { plan = plan_fold<T>(p); });
  return known ? plan : KernelPlan::reject(unsupported_dtype(request.input(0).dtype));
}

}  // namespace

void register_fold_kernels(KernelTable& table) {
  table["Unfold"] = {{{"rows of windows", make_unfold}}};
  table["Fold"] = {{{"rows of windows", make_fold}}};
}

}  // namespace pando::cpu
