// Offset assignment for storages with known lifetimes.
#pragma once

#include <cstdint>
#include <vector>

#include "pando/base/alignment.hpp"

namespace pando {

/// Alive from instruction `first` to instruction `last`, both included.
struct Lifetime {
  std::int64_t bytes = 0;
  int first = 0;
  int last = 0;
};

struct MemoryPlan {
  std::vector<std::int64_t> offsets;  // one per lifetime, bytes
  std::int64_t total_bytes = 0;
  /// Most bytes alive at once (sizes aligned): no plan can be smaller.
  std::int64_t lower_bound_bytes = 0;
  /// Bytes alive at each instruction.
  std::vector<std::int64_t> timeline;
};

/// Tries several greedy orders (by size, by area, by start) and keeps the smallest plan.
MemoryPlan plan_memory(const std::vector<Lifetime>& lifetimes, int num_instructions);

}  // namespace pando
