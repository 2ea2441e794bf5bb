#pragma once

#include "pando/backends/cpu/kernel_table.hpp"

namespace pando::cpu {

/// ReduceMedian: the element (n - 1) / 2 in order of the flattened reduced axes, and its int32
/// position there. Ties: the lowest position. NaN sorts last.
KernelPlan make_median(const KernelRequest& request);

}  // namespace pando::cpu
