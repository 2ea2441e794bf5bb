#include "pando/backends/cpu/onednn/weights_reorder.hpp"

#include <algorithm>
#include <cstdint>
#include <iterator>

#include "pando/backends/cpu/parallel.hpp"

namespace pando::cpu {
namespace {

/// By dimension (channels of the result, of the data): blocks of layouts are that long or divide
/// it.
constexpr std::int64_t kChannelBlocks[] = {64, 16};
/// Below it another thread costs more than it saves.
constexpr std::int64_t kLeastPartBytes = std::int64_t{1} << 14;

}  // namespace

WeightsReorder::WeightsReorder(const dnnl::memory::desc& from, const dnnl::memory::desc& to,
                               int num_threads)
    : num_threads_(num_threads) {
  const SingleThreaded single;
  for (std::size_t dimension = 0; dimension < std::size(kChannelBlocks); ++dimension) {
    if (cut(from, to, dimension)) return;
    parts_.clear();
  }
  parts_.push_back(onednn_reorder(from, to));
}

bool WeightsReorder::cut(const dnnl::memory::desc& from, const dnnl::memory::desc& to,
                         std::size_t dimension) {
  const dnnl::memory::dims dims = from.get_dims();
  const auto bytes = static_cast<std::int64_t>(from.get_size());
  const std::int64_t channels = dims[dimension], block = kChannelBlocks[dimension];
  const std::int64_t blocks = channels / block;
  const std::int64_t count =
      std::min({std::int64_t{num_threads_}, blocks, bytes / kLeastPartBytes});
  if (count < 2) return false;
  try {
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t begin = blocks * i / count * block;
      const std::int64_t end = i + 1 == count ? channels : blocks * (i + 1) / count * block;
      dnnl::memory::dims part = dims, first(dims.size());
      part[dimension] = end - begin;
      first[dimension] = begin;
      parts_.push_back(
          onednn_reorder(from.submemory_desc(part, first), to.submemory_desc(part, first)));
    }
  } catch (const dnnl::error&) {
    return false;  // a block of the layout has another length
  }
  return true;
}

void WeightsReorder::run(std::byte* from, std::byte* to) const {
  const auto count = static_cast<std::int64_t>(parts_.size());
  parallel_for(num_threads_, count, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      void* const both[] = {from, to};
      parts_[static_cast<std::size_t>(i)]->run(both);
    }
  });
}

}  // namespace pando::cpu
