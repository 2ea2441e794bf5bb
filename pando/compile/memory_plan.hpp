// Offset assignment for storages with known lifetimes.
#pragma once

#include <cstdint>
#include <vector>

namespace pando {

/// Alive from instruction `first` to instruction `last`, both included.
struct Lifetime {
  std::int64_t bytes = 0;
  int first = 0;
  int last = 0;
};

inline constexpr std::int64_t kStorageAlignment = 64;
constexpr std::int64_t align_bytes(std::int64_t bytes) {
  return (bytes + kStorageAlignment - 1) / kStorageAlignment * kStorageAlignment;
}

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
