// What the candidates for pools share.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pando/backends/cpu/kernel_table.hpp"
#include "pando/backends/cpu/kernels/window_geometry.hpp"

namespace pando::cpu {

enum class Pool { Max, MaxGrad, Average, AverageGrad };

/// Data (planes, data..., lanes): channels are planes, or lanes where they are last.
struct PoolShape : WindowGeometry {
  std::int64_t planes = 0, lanes = 1;
  /// Pads whose cells an average counts.
  Spatial counted_before{0, 0, 0}, counted_after{0, 0, 0};
  bool first_of_ties = false;
  int threads = 1;

  /// Cells of the window of result `o` along dimension `d` that an average counts.
  std::int64_t counted(std::size_t d, std::int64_t o) const {
    std::int64_t count = 0;
    for (std::int64_t k = 0; k < kernel[d]; ++k) {
      const std::int64_t at = data_index(d, o, k);
      if (at >= -counted_before[d] && at < data[d] + counted_after[d]) ++count;
    }
    return count;
  }
};

/// The data and the result of a pool or its gradient.
struct PoolOperands {
  const OperandDesc *data, *result;
};
PoolOperands pool_operands(const KernelRequest& request, Pool pool);

/// Fills in all but the windows, or returns what is wrong. Spatial dimensions of the operands.
struct PoolSizes {
  Shape data, result;
};
std::string parse_pool_sizes(const KernelRequest& request, Pool pool, PoolShape& p,
                             PoolSizes& sizes);
/// As parse_pool_sizes, with the windows of the attributes kernel_size and so on.
std::string parse_pool(const KernelRequest& request, Pool pool, PoolShape& p);

/// Any windows, any place of the channels: adaptive pools and channels last.
template <Pool P>
KernelPlan make_cell_pool(const KernelRequest& request);

}  // namespace pando::cpu
