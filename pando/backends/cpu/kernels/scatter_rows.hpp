// Scatters in which whole rows go to one place each.
#pragma once

#include "pando/backends/cpu/kernel_table.hpp"
#include "pando/backends/cpu/kernels/row_order.hpp"

namespace pando::cpu {

/// Whether the indices of a ScatterReduce stand for whole rows.
bool goes_by_rows(const KernelRequest& request);
KernelPlan make_scatter_reduce_rows(const KernelRequest& request);
/// A kernel of the operands rows, indices and sums.
KernelPlan plan_row_sums(DType dtype, const RowTargets& targets);

}  // namespace pando::cpu
