// A radix sort, and TopK by it.
#pragma once

#include <cstdint>

#include "pando/backends/cpu/kernel_table.hpp"

namespace pando::cpu {

/// Sorts `size` numbers by their upper 32 bits, equal ones in the order in which they come. Both
/// buffers are overwritten; gives the one with the result.
const std::uint64_t* radix_sort(std::uint64_t* from, std::uint64_t* to, std::int64_t size);

/// For many results of many elements with at most four bytes each.
KernelPlan make_radix_top_k(const KernelRequest& request);

}  // namespace pando::cpu
