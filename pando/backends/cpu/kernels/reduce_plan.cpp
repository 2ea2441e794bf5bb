#include "pando/backends/cpu/kernels/reduce_plan.hpp"

#include <algorithm>
#include <cstdlib>

namespace pando::cpu {
namespace {

void append(StridedDims& dims, std::int64_t size, std::int64_t stride) {
  if (size == 1) return;
  if (!dims.shape.empty() && dims.strides.back() == size * stride) {
    dims.shape.back() *= size;
    dims.strides.back() = stride;
    return;
  }
  dims.shape.push_back(size);
  dims.strides.push_back(stride);
}

}  // namespace

ReducePlan::ReducePlan(const OperandDesc& operand, const Ints& axes) {
  for (std::size_t d = 0; d < operand.shape.size(); ++d) {
    const bool is_reduced =
        std::find(axes.begin(), axes.end(), static_cast<std::int64_t>(d)) != axes.end();
    append(is_reduced ? reduced : kept, operand.shape[d], operand.strides[d]);
  }
  const bool unit_kept = !kept.shape.empty() && kept.strides.back() == 1;
  const auto nearest = [](const Strides& strides) {
    return std::min_element(strides.begin(), strides.end(),
                            [](auto a, auto b) { return std::abs(a) < std::abs(b); }) -
           strides.begin();
  };
  // Few columns under a reduced unit stride are not worth tiles of columns.
  if (unit_kept) {
    columns = kept.shape.back();
    kept.shape.pop_back();
    kept.strides.pop_back();
  }
  if (!reduced.shape.empty()) {
    const auto inner = nearest(reduced.strides);
    run = reduced.shape[static_cast<std::size_t>(inner)];
    run_stride = reduced.strides[static_cast<std::size_t>(inner)];
    reduced.shape.erase(reduced.shape.begin() + inner);
    reduced.strides.erase(reduced.strides.begin() + inner);
  }
}

void ReducePlan::split_run(std::int64_t pieces) {
  if (outer_count() >= pieces) return;
  for (std::int64_t parts = pieces; parts >= 2; --parts) {
    if (run % parts != 0) continue;
    run /= parts;
    reduced.shape.push_back(parts);
    reduced.strides.push_back(run * run_stride);
    return;
  }
}

}  // namespace pando::cpu
