// TopK by a radix sort of all elements.
#pragma once

#include "pando/backends/cpu/kernel_table.hpp"

namespace pando::cpu {

/// For many results of many elements with at most four bytes each.
KernelPlan make_radix_top_k(const KernelRequest& request);

}  // namespace pando::cpu
