// Kernels of fused steps that are alike: those of equal layers are built once.
#pragma once

#include <cstdint>
#include <functional>
#include <unordered_map>
#include <vector>

#include "pando/compile/fusion_groups.hpp"
#include "pando/compile/placement.hpp"

namespace pando {

/// The kernel of a fused step and the tensors that are its operands; without `stored` nothing of
/// the step is needed.
struct FusedStep {
  std::int32_t kernel = -1;
  std::vector<const Tensor*> loaded;
  std::vector<const Tensor*> stored;
};

/// Finds an earlier step whose kernel another one can run, without building that one's. Its ops
/// must stay alive.
class FusedStepCache {
 public:
  /// `is_stored`: whether a storage written in the step must hold the result.
  using IsStored = std::function<bool(const Tensor* root)>;

  /// nullptr when there is none: then `add` may follow with the same step. Valid until the next
  /// one is looked for.
  const FusedStep* find(const ExecutionStep& step, const Placements& placements,
                        const IsStored& is_stored);
  void add(const ExecutionStep& step, const FusedStep& fused);

 private:
  struct Entry {
    std::vector<std::int64_t> signature;
    std::vector<const Op*> ops;
    std::int32_t kernel;
    std::vector<int> loaded;  // positions in tensors_
    std::vector<int> stored;
  };

  void describe(const ExecutionStep& step, const Placements& placements, const IsStored& is_stored);
  void describe(const Tensor& tensor, const Placement& placement);
  bool fits(const Entry& entry, const ExecutionStep& step) const;

  std::unordered_multimap<std::uint64_t, Entry> entries_;
  FusedStep found_;
  // These describe the step that was looked for last.
  std::uint64_t hash_ = 0;
  std::vector<std::int64_t> signature_;
  std::vector<const Tensor*> tensors_;  // inputs and outputs of its ops, op by op
  std::vector<const Tensor*> roots_;    // in order of their first use
};

}  // namespace pando
