// ArgMax, ArgMin, TopK, Bucketize and Histogram.
#include <algorithm>
#include <cmath>

#include "pando/backends/cpu/kernel_table.hpp"
#include "pando/backends/cpu/kernels/element.hpp"
#include "pando/backends/cpu/kernels/float_rows.hpp"
#include "pando/backends/cpu/kernels/radix_sort.hpp"
#include "pando/backends/cpu/kernels/strided_copy.hpp"
#include "pando/base/error.hpp"

namespace pando::cpu {
namespace {

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

/// Whether none of `count` values can precede `worst`; a NaN may. Without branches, so that the
/// compiler looks at several at once.
template <bool Largest, class T>
bool none_precedes(const T* values, std::int64_t count, Compute<T> worst) {
  bool any = false;
  for (std::int64_t i = 0; i < count; ++i) {
    const Compute<T> value = values[i];
    any |= Largest ? !(value <= worst) : !(value >= worst);
  }
  return !any;
}

/// The `k` first of `size` values, in order; `list` has room for them. Most values are further back
/// than the worst of the list and are not looked at twice.
template <class T, bool Largest>
void select_first(const T* column, std::int64_t size, std::int64_t stride, std::int64_t k,
                  Numbered<T>* list) {
  const auto before = [](const Numbered<T>& a, const Numbered<T>& b) {
    if (precedes<Largest>(a.value, b.value)) return true;
    if (precedes<Largest>(b.value, a.value)) return false;
    return a.index < b.index;
  };
  const auto at = [&](std::int64_t i) {
    return Numbered<T>{static_cast<Compute<T>>(column[i * stride]), static_cast<std::int32_t>(i)};
  };
  if (k == 0) return;
  for (std::int64_t i = 0; i < k; ++i) list[i] = at(i);
  std::make_heap(list, list + k, before);
  constexpr std::int64_t kBlock = 16;
  for (std::int64_t i = k; i < size;) {
    const std::int64_t count = std::min(kBlock, size - i);
    if (stride == 1 && none_precedes<Largest>(column + i, count, list[0].value)) {
      i += count;
      continue;
    }
    for (const std::int64_t end = i + count; i < end; ++i) {
      // A later index loses against an equal value.
      if (!precedes<Largest>(static_cast<Compute<T>>(column[i * stride]), list[0].value)) continue;
      std::pop_heap(list, list + k, before);
      list[k - 1] = at(i);
      std::push_heap(list, list + k, before);
    }
  }
  std::sort_heap(list, list + k, before);
}

template <class T, bool Largest>
KernelPlan plan_top_k(const AxisView& view, std::int64_t k, int threads) {
  const std::size_t slot = scratch_aligned(static_cast<std::size_t>(k) * sizeof(Numbered<T>));
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
                       select_first<T, Largest>(column, view.size, view.inner, k, list);
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

template <class T>
std::int32_t bucket_of(Compute<T> x, const T* boundaries, std::int64_t count, bool right) {
  std::int64_t low = 0;
  for (std::int64_t high = count; low < high;) {
    const std::int64_t middle = low + (high - low) / 2;
    const Compute<T> boundary = boundaries[middle];
    // False for NaN, which so comes after all boundaries.
    const bool is_after = right ? boundary > x : boundary >= x;
    if (is_after) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return static_cast<std::int32_t>(low);
}

KernelPlan make_bucketize(const KernelRequest& request) {
  const bool right = request.attributes().flag_or("right", false);
  const std::int64_t count = num_elements(request.input(0).shape);
  const std::int64_t num_boundaries = num_elements(request.input(1).shape);
  if (request.input(1).dtype != request.input(0).dtype || request.output(0).dtype != DType::Int32) {
    return KernelPlan::reject("wanted boundaries of the dtype of the values, and an int32 result");
  }
  KernelPlan plan;
  const bool known = dispatch_arithmetic(request.input(0).dtype, [&]<class T>(T) {
    plan.run = [=, threads = request.num_threads](std::byte* const* operands, std::byte*) {
      const T* in = operand_in<T>(operands, 0);
      const T* boundaries = operand_in<T>(operands, 1);
      auto* out = operand_out<std::int32_t>(operands, 2);
      parallel_for(threads, count, 1 << 12, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
          out[i] = bucket_of<T>(in[i], boundaries, num_boundaries, right);
        }
      });
    };
  });
  return known ? plan : KernelPlan::reject(unsupported_dtype(request.input(0).dtype));
}

}  // namespace

void register_select_kernels(KernelTable& table) {
  table["ArgMax"] = {{{"columns", make_arg_extreme<true>}}};
  table["ArgMin"] = {{{"columns", make_arg_extreme<false>}}};
  table["TopK"] = {{{"radix sort", make_radix_top_k}, {"heap of the first", make_top_k}}};
  table["Bucketize"] = {{{"binary search", make_bucketize}}};
  table["Histogram"] = {{{"binary search", make_histogram}}};
}

}  // namespace pando::cpu
