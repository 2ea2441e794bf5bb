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
  /// How many pairs of storages were compared to make it: at most kMostComparedPairs.
  std::int64_t compared_pairs = 0;
};

/// A tenth of a second. Plans of fewer than a thousand storages need less.
inline constexpr std::int64_t kMostComparedPairs = 100'000'000;

/// Tries several greedy orders (by size, by area, by start) and keeps the smallest plan. With so
/// many storages that trying takes long, fewer orders.
MemoryPlan plan_memory(const std::vector<Lifetime>& lifetimes, int num_instructions);

}  // namespace pando
