// Weights of convolutions in another layout.
#pragma once

#include <cstddef>
#include <dnnl.hpp>
#include <memory>
#include <vector>

#include "pando/backends/cpu/onednn/onednn.hpp"

namespace pando::cpu {

class WeightsReorder {
 public:
  /// Cuts the work for threads where the layouts allow it.
  WeightsReorder(const dnnl::memory::desc& from, const dnnl::memory::desc& to, int num_threads);

  /// May be called from several threads at once.
  void run(std::byte* from, std::byte* to) const;

 private:
  /// Along a dimension. False, with parts that are of no use, where that is not possible.
  bool cut(const dnnl::memory::desc& from, const dnnl::memory::desc& to, std::size_t dimension);

  int num_threads_;
  std::vector<std::unique_ptr<OnednnPrimitive>> parts_;
};

}  // namespace pando::cpu
