#include "pando/compile/fused_step_cache.hpp"

#include <algorithm>

#include "pando/base/error.hpp"
#include "pando/base/hash.hpp"

namespace pando {
namespace {

std::int64_t address(const void* pointer) {
  return static_cast<std::int64_t>(reinterpret_cast<std::intptr_t>(pointer));
}

std::int64_t index_of(std::vector<const Tensor*>& known, const Tensor* tensor) {
  const auto it = std::find(known.begin(), known.end(), tensor);
  if (it == known.end()) known.push_back(tensor);
  return it - known.begin();
}

std::vector<int> positions_of(const std::vector<const Tensor*>& tensors,
                              const std::vector<const Tensor*>& all) {
  std::vector<int> positions;
  positions.reserve(tensors.size());
  for (const Tensor* tensor : tensors) {
    const auto it = std::find(all.begin(), all.end(), tensor);
    internal_check(it != all.end(), "an operand of a fused step must be a tensor of its ops");
    positions.push_back(static_cast<int>(it - all.begin()));
  }
  return positions;
}

void take_positions(const std::vector<int>& positions, const std::vector<const Tensor*>& all,
                    std::vector<const Tensor*>& tensors) {
  tensors.clear();
  for (const int position : positions) tensors.push_back(all[static_cast<std::size_t>(position)]);
}

}  // namespace

void FusedStepCache::describe(const Tensor& tensor, const Placement& placement) {
  const View& view = *placement.view;
  signature_.push_back(index_of(roots_, placement.root));
  signature_.push_back(static_cast<std::int64_t>(tensor.dtype()));
  // A body may depend on the value of a constant.
  signature_.push_back(tensor.kind() == TensorKind::Constant ? address(tensor.data.get()) : 0);
  signature_.push_back(view.offset);
  signature_.push_back(static_cast<std::int64_t>(view.shape.size()));
  signature_.insert(signature_.end(), view.shape.begin(), view.shape.end());
  signature_.insert(signature_.end(), view.strides.begin(), view.strides.end());
}

void FusedStepCache::describe(const ExecutionStep& step, const Placements& placements,
                              const IsStored& is_stored) {
  signature_.clear();
  tensors_.clear();
  roots_.clear();
  for (const Op* op : step.ops) {
    signature_.insert(signature_.end(), {address(&op->def()), op->num_inputs(), op->num_outputs()});
    for (const Tensor* input : op->inputs()) {
      tensors_.push_back(input);
      if (input == nullptr) {
        signature_.push_back(-1);
      } else {
        describe(*input, placements.of(input));
      }
    }
    for (const Tensor* output : op->outputs()) {
      const Placement& placement = placements.of(output);
      tensors_.push_back(output);
      describe(*output, placement);
      signature_.push_back(is_stored(placement.root) ? 1 : 0);
    }
  }
  hash_ = hash64(
      {reinterpret_cast<const char*>(signature_.data()), signature_.size() * sizeof(std::int64_t)});
}

bool FusedStepCache::fits(const Entry& entry, const ExecutionStep& step) const {
  return entry.signature == signature_ &&
         std::equal(
             step.ops.begin(), step.ops.end(), entry.ops.begin(), entry.ops.end(),
             [](const Op* one, const Op* other) { return one->attributes == other->attributes; });
}

const FusedStep* FusedStepCache::find(const ExecutionStep& step, const Placements& placements,
                                      const IsStored& is_stored) {
  describe(step, placements, is_stored);
  const auto [first, last] = entries_.equal_range(hash_);
  for (auto it = first; it != last; ++it) {
    const Entry& entry = it->second;
    if (!fits(entry, step)) continue;
    found_.kernel = entry.kernel;
    take_positions(entry.loaded, tensors_, found_.loaded);
    take_positions(entry.stored, tensors_, found_.stored);
    return &found_;
  }
  return nullptr;
}

void FusedStepCache::add(const ExecutionStep& step, const FusedStep& fused) {
  Entry entry;
  entry.signature = signature_;
  entry.ops.assign(step.ops.begin(), step.ops.end());
  entry.kernel = fused.kernel;
  entry.loaded = positions_of(fused.loaded, tensors_);
  entry.stored = positions_of(fused.stored, tensors_);
  entries_.emplace(hash_, std::move(entry));
}

}  // namespace pando
