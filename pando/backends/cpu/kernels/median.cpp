#include "pando/backends/cpu/kernels/median.hpp"

#include <algorithm>
#include <cmath>

#include "pando/backends/cpu/kernels/element.hpp"
#include "pando/backends/cpu/kernels/float_rows.hpp"
#include "pando/backends/cpu/kernels/reduce_plan.hpp"

namespace pando::cpu {
namespace {

template <class T>
struct Ranked {
  Compute<T> value;
  std::int32_t position;
  bool operator<(const Ranked& other) const {
    if constexpr (kIsFloatElement<T>) {
      const bool a = std::isnan(value), b = std::isnan(other.value);
      if (a || b) return a == b ? position < other.position : b;
    }
    return value != other.value ? value < other.value : position < other.position;
  }
};

template <class T>
KernelPlan plan_median(const StridedDims& kept, const StridedDims& reduced, int threads) {
  const std::int64_t count = num_elements(reduced.shape);
  const std::int64_t outputs = num_elements(kept.shape);
  const std::size_t slot_bytes =
      scratch_aligned(static_cast<std::size_t>(count) * sizeof(Ranked<T>));
  KernelPlan plan;
  plan.scratch_bytes = slot_bytes * static_cast<std::size_t>(threads);
  plan.run = [=](std::byte* const* operands, std::byte* scratch) {
    const T* in = operand_in<T>(operands, 0);
    T* values = operand_out<T>(operands, 1);
    auto* positions = operand_out<std::int32_t>(operands, 2);
    parallel_slots(threads, outputs, row_grain(count, 1 << 12),
                   [&](std::int64_t slot, std::int64_t begin, std::int64_t end) {
                     auto* ranked = reinterpret_cast<Ranked<T>*>(scratch + slot * slot_bytes);
                     for (std::int64_t o = begin; o < end; ++o) {
                       const T* base = in + strided_offset(kept, o);
                       for (std::int64_t i = 0; i < count; ++i) {
                         ranked[i] = {static_cast<Compute<T>>(base[strided_offset(reduced, i)]),
                                      static_cast<std::int32_t>(i)};
                       }
                       Ranked<T>* middle = ranked + (count - 1) / 2;
                       std::nth_element(ranked, middle, ranked + count);
                       values[o] = static_cast<T>(middle->value);
                       positions[o] = middle->position;
                     }
                   });
  };
  return plan;
}

}  // namespace

KernelPlan make_median(const KernelRequest& request) {
  const OperandDesc& in = request.input(0);
  const Ints& axes = request.attributes().ints("axes");
  StridedDims kept, reduced;
  for (std::size_t d = 0; d < in.shape.size(); ++d) {
    const bool is_reduced =
        std::find(axes.begin(), axes.end(), static_cast<std::int64_t>(d)) != axes.end();
    StridedDims& dims = is_reduced ? reduced : kept;
    dims.shape.push_back(in.shape[d]);
    dims.strides.push_back(in.strides[d]);
  }
  if (num_elements(reduced.shape) == 0 && num_elements(kept.shape) > 0) {
    return KernelPlan::reject("the median of no elements is not defined");
  }
  KernelPlan plan;
  const bool known = dispatch_arithmetic(
      in.dtype, [&]<class T>(T) { plan = plan_median<T>(kept, reduced, request.num_threads); });
  return known ? plan : KernelPlan::reject(unsupported_dtype(in.dtype));
}

}  // namespace pando::cpu
