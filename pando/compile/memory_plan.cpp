#include "pando/compile/memory_plan.hpp"

#include <algorithm>
#include <numeric>

namespace pando {
namespace {

/// Another try is not worth its time for less than this part of the memory.
constexpr std::int64_t kGoodEnough = 100;

struct Placed {
  std::int64_t offset;
  std::int64_t end;
  int first;
  int last;
};

/// Lowest offset where each storage fits, in the given order.
std::int64_t place_in_order(const std::vector<Lifetime>& lifetimes, const std::vector<int>& order,
                            std::vector<std::int64_t>& offsets) {
  std::vector<Placed> placed;  // sorted by offset
  placed.reserve(lifetimes.size());
  std::int64_t total = 0;
  for (int index : order) {
    const Lifetime& life = lifetimes[static_cast<std::size_t>(index)];
    const std::int64_t bytes = align_bytes(life.bytes);
    std::int64_t offset = 0;
    for (const Placed& other : placed) {
      if (other.last < life.first || life.last < other.first) continue;
      if (other.offset >= offset + bytes) break;
      offset = std::max(offset, other.end);
    }
    offsets[static_cast<std::size_t>(index)] = offset;
    total = std::max(total, offset + bytes);
    const Placed entry{offset, offset + bytes, life.first, life.last};
    placed.insert(
        std::upper_bound(placed.begin(), placed.end(), entry,
                         [](const Placed& a, const Placed& b) { return a.offset < b.offset; }),
        entry);
  }
  return total;
}

std::vector<std::int64_t> alive_bytes(const std::vector<Lifetime>& lifetimes,
                                      int num_instructions) {
  std::vector<std::int64_t> change(static_cast<std::size_t>(num_instructions) + 1, 0);
  for (const Lifetime& life : lifetimes) {
    change[static_cast<std::size_t>(life.first)] += align_bytes(life.bytes);
    change[static_cast<std::size_t>(life.last) + 1] -= align_bytes(life.bytes);
  }
  std::partial_sum(change.begin(), change.end(), change.begin());
  change.pop_back();
  return change;
}

}  // namespace

MemoryPlan plan_memory(const std::vector<Lifetime>& lifetimes, int num_instructions) {
  MemoryPlan plan;
  plan.offsets.assign(lifetimes.size(), 0);
  plan.timeline = alive_bytes(lifetimes, num_instructions);
  for (std::int64_t bytes : plan.timeline) {
    plan.lower_bound_bytes = std::max(plan.lower_bound_bytes, bytes);
  }
  const auto key_size = [&](int i) { return lifetimes[static_cast<std::size_t>(i)].bytes; };
  const auto key_area = [&](int i) {
    const Lifetime& life = lifetimes[static_cast<std::size_t>(i)];
    return life.bytes * (life.last - life.first + 1);
  };
  const auto key_start = [&](int i) {
    return -std::int64_t{lifetimes[static_cast<std::size_t>(i)].first};
  };
  std::vector<std::int64_t> offsets(lifetimes.size());
  bool first_try = true;
  const auto attempt = [&](auto key) {
    const std::int64_t excess = plan.total_bytes - plan.lower_bound_bytes;
    if (!first_try && excess <= plan.lower_bound_bytes / kGoodEnough) return;
    std::vector<int> order(lifetimes.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return key(a) > key(b); });
    const std::int64_t total = place_in_order(lifetimes, order, offsets);
    if (first_try || total < plan.total_bytes) {
      plan.total_bytes = total;
      plan.offsets = offsets;
    }
    first_try = false;
  };
  attempt(key_size);
  attempt(key_area);
  attempt(key_start);
  return plan;
}

}  // namespace pando
