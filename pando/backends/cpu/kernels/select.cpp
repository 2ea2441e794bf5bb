// ArgMax, ArgMin, TopK, CumSum and Histogram.
#include <algorithm>
#include <cmath>

#include "pando/backends/cpu/kernel_table.hpp"
#include "pando/backends/cpu/kernels/element.hpp"
#include "pando/backends/cpu/kernels/float_rows.hpp"
#include "pando/backends/cpu/kernels/strided_copy.hpp"
#include "pando/base/error.hpp"

namespace pando::cpu {
namespace {

AxisView axis_view(const KernelRequest& request) {
  const Shape& shape = request.input(0).shape;
  return AxisView(
      shape, normalise_axis(request.attributes().integer("axis"),
                            static_cast<std::int64_t>(shape.size()), request.spec.kind.c_str()));
}

/// Whether a comes before b: NaN counts as the largest value.
template <bool Largest, class A>
bool precedes(A a, A b) {
  const bool a_nan = a != a, b_nan = b != b;
  if (a_nan || b_nan) return Largest ? a_nan && !b_nan : b_nan && !a_nan;
  return Largest ? b < a : a < b;
}

template <bool Largest>
KernelPlan make_arg_extreme(const KernelRequest& request) {
  const AxisView view = axis_view(request);
  if (view.size == 0) return KernelPlan::reject("the extreme of no elements is not defined");
  if (request.output(0).dtype != DType::Int32)
    return KernelPlan::reject("the result must be int32");
  KernelPlan plan;
  const bool known = dispatch_arithmetic(request.input(0).dtype, [&]<class T>(T) {
    plan.run = [view, threads = request.num_threads](std::byte* const* operands, std::byte*) {
      const T* in = operand_in<T>(operands, 0);
      auto* out = operand_out<std::int32_t>(operands, 1);
      parallel_for(threads, view.outer * view.inner, row_grain(view.size),
                   [&](std::int64_t begin, std::int64_t end) {
                     for (std::int64_t r = begin; r < end; ++r) {
                       const T* column =
                           in + r / view.inner * view.size * view.inner + r % view.inner;
                       Compute<T> best = column[0];
                       std::int64_t at = 0;
                       for (std::int64_t i = 1; i < view.size; ++i) {
                         const Compute<T> value = column[i * view.inner];
                         // As NumPy, a NaN is the result of both searches.
                         const bool is_nan = value != value && best == best;
                         if (is_nan || (best == best && (Largest ? best < value : value < best))) {
                           best = value;
                           at = i;
                         }
                       }
                       out[r] = static_cast<std::int32_t>(at);
                     }
                   });
    };
  });
  return known ? plan : KernelPlan::reject(unsupported_dtype(request.input(0).dtype));
}

template <class T>
struct Numbered {
  Compute<T> value;
  std::int32_t index;
};

template <class T, bool Largest>
KernelPlan plan_top_k(const AxisView& view, std::int64_t k, int threads) {
  const std::size_t slot =
      scratch_aligned(static_cast<std::size_t>(view.size) * sizeof(Numbered<T>));
  KernelPlan plan;
  plan.scratch_bytes = slot * static_cast<std::size_t>(threads);
  plan.run = [=](std::byte* const* operands, std::byte* scratch) {
    const T* in = operand_in<T>(operands, 0);
    T* values = operand_out<T>(operands, 1);
    auto* indices = operand_out<std::int32_t>(operands, 2);
    parallel_slots(threads, view.outer * view.inner, row_grain(view.size, 1 << 12),
                   [&](std::int64_t s, std::int64_t begin, std::int64_t end) {
                     auto* list = reinterpret_cast<Numbered<T>*>(scratch + s * slot);
                     for (std::int64_t r = begin; r < end; ++r) {
                       const std::int64_t outer = r / view.inner, inner = r % view.inner;
                       const T* column = in + outer * view.size * view.inner + inner;
                       for (std::int64_t i = 0; i < view.size; ++i) {
                         list[i] = {static_cast<Compute<T>>(column[i * view.inner]),
                                    static_cast<std::int32_t>(i)};
                       }
                       std::partial_sort(list, list + k, list + view.size,
                                         [](const Numbered<T>& a, const Numbered<T>& b) {
                                           if (precedes<Largest>(a.value, b.value)) return true;
                                           if (precedes<Largest>(b.value, a.value)) return false;
                                           return a.index < b.index;
                                         });
                       for (std::int64_t i = 0; i < k; ++i) {
                         const std::int64_t at = (outer * k + i) * view.inner + inner;
                         values[at] = static_cast<T>(list[i].value);
                         indices[at] = list[i].index;
                       }
                     }
                   });
  };
  return plan;
}

KernelPlan make_top_k(const KernelRequest& request) {
  const AxisView view = axis_view(request);
  const std::int64_t k = request.attributes().integer("k");
  if (k < 0 || k > view.size) {
    return KernelPlan::reject(str_cat("k ", k, " exceeds the dimension of ", view.size));
  }
  if (request.output(1).dtype != DType::Int32) return KernelPlan::reject("indices must be int32");
  const bool largest = request.attributes().flag("largest");
  KernelPlan plan;
  const bool known = dispatch_arithmetic(request.input(0).dtype, [&]<class T>(T) {
    plan = largest ? plan_top_k<T, true>(view, k, request.num_threads)
                   : plan_top_k<T, false>(view, k, request.num_threads);
  });
  return known ? plan : KernelPlan::reject(unsupported_dtype(request.input(0).dtype));
}

KernelPlan make_cum_sum(const KernelRequest& request) {
  const AxisView view = axis_view(request);
  const bool reverse = request.attributes().flag_or("reverse", false);
  KernelPlan plan;
  const bool known = dispatch_arithmetic(request.input(0).dtype, [&]<class T>(T) {
    plan.run = [view, reverse, threads = request.num_threads](std::byte* const* operands,
                                                              std::byte*) {
      using Sum = std::conditional_t<kIsFloatElement<T>, double, std::uint64_t>;
      const T* in = operand_in<T>(operands, 0);
      T* out = operand_out<T>(operands, 1);
      parallel_for(
          threads, view.outer * view.inner, row_grain(view.size),
          [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t r = begin; r < end; ++r) {
              const std::int64_t base = r / view.inner * view.size * view.inner + r % view.inner;
              Sum sum = 0;
              for (std::int64_t i = 0; i < view.size; ++i) {
                const std::int64_t at = base + (reverse ? view.size - 1 - i : i) * view.inner;
                sum += static_cast<Sum>(in[at]);
                out[at] = static_cast<T>(sum);
              }
            }
          });
    };
  });
  return known ? plan : KernelPlan::reject(unsupported_dtype(request.input(0).dtype));
}

KernelPlan make_histogram(const KernelRequest& request) {
  const Floats& levels = request.attributes().floats("levels");
  const bool absolute = request.attributes().flag("absolute_of_input");
  const std::int64_t count = num_elements(request.input(0).shape);
  const std::size_t bins = levels.size() + 1;
  const OperandDesc& out = request.output(0);
  if (out.dtype != DType::UInt32 || num_elements(out.shape) != static_cast<std::int64_t>(bins)) {
    return KernelPlan::reject(str_cat("the result must hold ", bins, " uint32 counts"));
  }
  const int threads = request.num_threads;
  KernelPlan plan;
  plan.scratch_bytes = static_cast<std::size_t>(threads) * bins * sizeof(std::uint32_t);
  const bool known = dispatch_float(request.input(0).dtype, [&]<class T>(T) {
    plan.run = [=](std::byte* const* operands, std::byte* scratch) {
      const T* in = operand_in<T>(operands, 0);
      auto* total = operand_out<std::uint32_t>(operands, 1);
      auto* partial = reinterpret_cast<std::uint32_t*>(scratch);
      std::fill_n(partial, static_cast<std::size_t>(threads) * bins, 0u);
      parallel_slots(
          threads, count, 1 << 13, [&](std::int64_t slot, std::int64_t begin, std::int64_t end) {
            std::uint32_t* counts = partial + static_cast<std::size_t>(slot) * bins;
            for (std::int64_t i = begin; i < end; ++i) {
              const auto x = static_cast<double>(in[i]);
              const double value = absolute ? std::abs(x) : x;
              ++counts[std::upper_bound(levels.begin(), levels.end(), value) - levels.begin()];
            }
          });
      for (std::size_t b = 0; b < bins; ++b) {
        total[b] = 0;
        for (int t = 0; t < threads; ++t) {
          total[b] += partial[static_cast<std::size_t>(t) * bins + b];
        }
      }
    };
  });
  return known ? plan : KernelPlan::reject(unsupported_dtype(request.input(0).dtype));
}

}  // namespace

void register_select_kernels(KernelTable& table) {
  table["ArgMax"] = {{{"columns", make_arg_extreme<true>}}};
  table["ArgMin"] = {{{"columns", make_arg_extreme<false>}}};
  table["TopK"] = {{{"partial sort", make_top_k}}};
  table["CumSum"] = {{{"columns", make_cum_sum}}, AcceptedLayout::Contiguous, {0}};
  table["Histogram"] = {{{"binary search", make_histogram}}};
}

}  // namespace pando::cpu
