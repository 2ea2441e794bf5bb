// Storages of a function that have become parts of others.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "pando/steps/step_function.hpp"

namespace pando {

/// Joining takes constant time: operands get their new names once, when all is joined.
class MergedStorages {
 public:
  /// From now on `storage` lies at `place`, in another storage.
  void join(std::int32_t storage, const StepOperand& place) {
    const auto count = static_cast<std::size_t>(std::max(storage, place.storage)) + 1;
    if (parents_.size() < count) parents_.resize(count);
    parents_[static_cast<std::size_t>(storage)] = {place.storage, place.offset};
  }

  /// Where `operand` lies by now.
  StepOperand now(StepOperand operand) {
    const auto [storage, offset] = find(operand.storage);
    operand.storage = storage;
    operand.offset += offset;
    return operand;
  }

  void rename(StepFunction& function) {
    if (parents_.empty()) return;
    for (StepInstruction& instruction : function.instructions) {
      for (StepOperand& operand : instruction.operands) operand = now(operand);
    }
  }

 private:
  struct Place {
    std::int32_t storage = -1;  // -1: it lies in no other one
    std::int64_t offset = 0;
  };

  bool is_merged(std::int32_t storage) const {
    return storage >= 0 && static_cast<std::size_t>(storage) < parents_.size() &&
           parent(storage).storage >= 0;
  }
  const Place& parent(std::int32_t storage) const {
    return parents_[static_cast<std::size_t>(storage)];
  }

  /// What is on the way is told the end of it.
  Place find(std::int32_t storage) {
    Place end{storage, 0};
    while (is_merged(end.storage)) {
      const Place& next = parent(end.storage);
      end = {next.storage, end.offset + next.offset};
    }
    Place rest = end;
    while (is_merged(storage)) {
      Place& place = parents_[static_cast<std::size_t>(storage)];
      const Place before = std::exchange(place, rest);
      rest.offset -= before.offset;
      storage = before.storage;
    }
    return end;
  }

  std::vector<Place> parents_;  // by storage
};

}  // namespace pando
