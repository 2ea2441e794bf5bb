// CumSum, CumProd and the gradient of the latter: columns along the axis.
#include <algorithm>
#include <type_traits>

#include "pando/backends/cpu/kernel_table.hpp"
#include "pando/backends/cpu/kernels/element.hpp"
#include "pando/backends/cpu/kernels/float_rows.hpp"
#include "pando/backends/cpu/kernels/strided_copy.hpp"
#include "pando/base/error.hpp"

namespace pando::cpu {
namespace {

/// Where running values are computed; those of integers wrap.
template <class T>
using Running = std::conditional_t<kIsFloatElement<T>, double, std::uint64_t>;

enum class Scan : std::uint8_t { Sum, Product };

/// Columns `lane` apart side by side, as each step of one waits for the step before it.
template <Scan kScan, int kLanes, class T>
void scan_lanes(const T* in, T* out, std::int64_t size, std::int64_t step, std::int64_t lane) {
  Running<T> running[kLanes];
  std::fill_n(running, kLanes, kScan == Scan::Sum ? Running<T>{0} : Running<T>{1});
  for (std::int64_t i = 0; i < size; ++i) {
    for (int k = 0; k < kLanes; ++k) {
      const std::int64_t at = i * step + k * lane;
      const auto value = static_cast<Running<T>>(in[at]);
      running[k] = kScan == Scan::Sum ? running[k] + value : running[k] * value;
      out[at] = static_cast<T>(running[k]);
    }
  }
}

/// The first element of column `r` of the view, the last one if the scan goes backwards.
std::int64_t column_start(const AxisView& view, bool reverse, std::int64_t r) {
  const std::int64_t first = r / view.inner * view.size * view.inner + r % view.inner;
  return first + (reverse ? (view.size - 1) * view.inner : 0);
}

/// Columns [begin, end) of the view.
template <Scan kScan, class T>
void scan_columns(const AxisView& view, bool reverse, const T* in, T* out, std::int64_t begin,
                  std::int64_t end) {
  constexpr int kLanes = 4;
  const std::int64_t lane = view.inner == 1 ? view.size : 1;
  const std::int64_t step = reverse ? -view.inner : view.inner;
  for (std::int64_t r = begin; r < end;) {
    const std::int64_t base = column_start(view, reverse, r);
    // Neighbours, but not across the end of a row of columns.
    const std::int64_t side_by_side =
        view.inner == 1 ? end - r : std::min(end - r, view.inner - r % view.inner);
    if (side_by_side >= kLanes) {
      scan_lanes<kScan, kLanes>(in + base, out + base, view.size, step, lane);
      r += kLanes;
    } else {
      scan_lanes<kScan, 1>(in + base, out + base, view.size, step, lane);
      ++r;
    }
  }
}

template <Scan kScan>
KernelPlan make_scan(const KernelRequest& request) {
  const AxisView view = axis_view(request);
  const bool reverse = request.attributes().flag_or("reverse", false);
  KernelPlan plan;
  const bool known = dispatch_arithmetic(request.input(0).dtype, [&]<class T>(T) {
    plan.run = [view, reverse, threads = request.num_threads](std::byte* const* operands,
                                                              std::byte*) {
      const T* in = operand_in<T>(operands, 0);
      T* out = operand_out<T>(operands, 1);
      parallel_for(threads, view.outer * view.inner, row_grain(view.size),
                   [&](std::int64_t begin, std::int64_t end) {
                     scan_columns<kScan>(view, reverse, in, out, begin, end);
                   });
    };
  });
  return known ? plan : KernelPlan::reject(unsupported_dtype(request.input(0).dtype));
}

/// out[k] = prod of x before k * s[k] with s[k] = g[k] + x[k + 1] s[k + 1]: right where x is 0.
template <class T>
void cum_prod_grad_column(const T* g, const T* x, T* out, std::int64_t size, std::int64_t step,
                          double* sums) {
  double sum = 0.0;
  for (std::int64_t i = size; i-- > 0;) {
    const double next = i + 1 < size ? static_cast<double>(x[(i + 1) * step]) * sum : 0.0;
    sums[i] = sum = static_cast<double>(g[i * step]) + next;
  }
  double before = 1.0;
  for (std::int64_t i = 0; i < size; ++i) {
    const auto factor = static_cast<double>(x[i * step]);
    out[i * step] = static_cast<T>(before * sums[i]);
    before *= factor;
  }
}

KernelPlan make_cum_prod_grad(const KernelRequest& request) {
  const AxisView view = axis_view(request);
  const bool reverse = request.attributes().flag("reverse");
  const std::size_t slot = scratch_aligned(static_cast<std::size_t>(view.size) * sizeof(double));
  const int threads = request.num_threads;
  KernelPlan plan;
  plan.scratch_bytes = slot * static_cast<std::size_t>(threads);
  const bool known = dispatch_float(request.input(0).dtype, [&]<class T>(T) {
    plan.run = [=](std::byte* const* operands, std::byte* scratch) {
      const T* g = operand_in<T>(operands, 0);
      const T* x = operand_in<T>(operands, 1);
      T* out = operand_out<T>(operands, 2);
      parallel_slots(threads, view.outer * view.inner, row_grain(view.size),
                     [&](std::int64_t s, std::int64_t begin, std::int64_t end) {
                       auto* sums =
                           reinterpret_cast<double*>(scratch + static_cast<std::size_t>(s) * slot);
                       for (std::int64_t r = begin; r < end; ++r) {
                         const std::int64_t at = column_start(view, reverse, r);
                         cum_prod_grad_column(g + at, x + at, out + at, view.size,
                                              reverse ? -view.inner : view.inner, sums);
                       }
                     });
    };
  });
  return known ? plan : KernelPlan::reject(unsupported_dtype(request.input(0).dtype));
}

}  // namespace

void register_scan_kernels(KernelTable& table) {
  table["CumSum"] = {{{"columns", make_scan<Scan::Sum>}}, AcceptedLayout::Contiguous, {0}};
  table["CumProd"] = {{{"columns", make_scan<Scan::Product>}}, AcceptedLayout::Contiguous, {0}};
  table["CumProdGrad"] = {{{"columns", make_cum_prod_grad}}};
}

}  // namespace pando::cpu
