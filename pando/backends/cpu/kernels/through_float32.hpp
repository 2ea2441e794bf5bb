// Kernels that compute in float32 or float64, and half precision through float32.
#pragma once

#include "pando/backends/cpu/kernel_table.hpp"

namespace pando::cpu {

/// Calls `body` with a value of the type of float32 or float64; false: `dtype` is another one.
template <class Body>
bool dispatch_single_or_double(DType dtype, Body&& body) {
  if (dtype == DType::Float32) {
    body(float{});
  } else if (dtype == DType::Float64) {
    body(double{});
  } else {
    return false;
  }
  return true;
}

/// plan_through_float32 as an entry of the kernel table.
template <KernelPlan (*kMake)(const KernelRequest&)>
KernelPlan through_float32(const KernelRequest& request) {
  return plan_through_float32(request, kMake);
}

}  // namespace pando::cpu
