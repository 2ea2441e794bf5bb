// Plans of memory: how much work they take.
#include "pando/compile/memory_plan.hpp"

#include <gtest/gtest.h>

#include <random>

namespace pando {
namespace {

/// Storages of all sizes and lives, which no order places without gaps.
std::vector<Lifetime> random_lifetimes(int count) {
  std::minstd_rand random(3);
  std::vector<Lifetime> lifetimes;
  for (int i = 0; i < count; ++i) {
    const int first = static_cast<int>(random() % static_cast<unsigned>(count));
    const int last = std::min<int>(count - 1, first + static_cast<int>(random() % 50));
    lifetimes.push_back({static_cast<std::int64_t>(64 + random() % 100'000), first, last});
  }
  return lifetimes;
}

void expect_sound(const std::vector<Lifetime>& lifetimes, const MemoryPlan& plan) {
  std::vector<std::size_t> by_offset(lifetimes.size());
  for (std::size_t i = 0; i < by_offset.size(); ++i) by_offset[i] = i;
  std::sort(by_offset.begin(), by_offset.end(),
            [&](std::size_t a, std::size_t b) { return plan.offsets[a] < plan.offsets[b]; });
  for (std::size_t i = 0; i < by_offset.size(); ++i) {
    const std::size_t a = by_offset[i];
    ASSERT_LE(plan.offsets[a] + lifetimes[a].bytes, plan.total_bytes);
    for (std::size_t k = i + 1; k < by_offset.size(); ++k) {
      const std::size_t b = by_offset[k];
      if (plan.offsets[b] >= plan.offsets[a] + lifetimes[a].bytes) break;
      ASSERT_TRUE(lifetimes[a].last < lifetimes[b].first || lifetimes[b].last < lifetimes[a].first);
    }
  }
}

TEST(MemoryPlan, ComparesPairsWhileTheyAreFew) {
  const std::vector<Lifetime> lifetimes = random_lifetimes(300);
  const MemoryPlan plan = plan_memory(lifetimes, 300);
  EXPECT_GT(plan.compared_pairs, 300);
  EXPECT_LT(plan.compared_pairs, kMostComparedPairs);
  EXPECT_LE(plan.total_bytes, plan.lower_bound_bytes + plan.lower_bound_bytes / 5);
  expect_sound(lifetimes, plan);
}

TEST(MemoryPlan, ComparesNoMorePairsForMoreStorages) {
  for (const int count : {9'000, 25'000, 50'000}) {
    const std::vector<Lifetime> lifetimes = random_lifetimes(count);
    const MemoryPlan plan = plan_memory(lifetimes, count);
    EXPECT_LE(plan.compared_pairs, kMostComparedPairs);
    const std::int64_t pairs = std::int64_t{count} * (count - 1) / 2;
    EXPECT_EQ(plan.compared_pairs % pairs, 0) << "a placement began that could not end";
    EXPECT_EQ(plan.compared_pairs > 0, pairs < kMostComparedPairs);
    EXPECT_LE(plan.total_bytes, 2 * plan.lower_bound_bytes);
    expect_sound(lifetimes, plan);
  }
}

TEST(MemoryPlan, ComparesFewPairsForAFewBytes) {
  for (const int count : {50, 5'000}) {
    std::vector<Lifetime> lifetimes = random_lifetimes(count);
    for (Lifetime& life : lifetimes) life.bytes = 1 + life.bytes % 300;
    const MemoryPlan plan = plan_memory(lifetimes, count);
    EXPECT_EQ(plan.compared_pairs > 0, count == 50);
    EXPECT_EQ(plan.total_bytes > plan.lower_bound_bytes, count > 50);
    expect_sound(lifetimes, plan);
  }
}

TEST(MemoryPlan, KeepsGapsWholeAroundStoragesWithoutBytes) {
  const int count = 25'000;
  std::vector<Lifetime> lifetimes = random_lifetimes(count);
  const std::int64_t alone = plan_memory(lifetimes, count).total_bytes;
  for (int first = 0; first < count; ++first) {
    lifetimes.push_back({0, first, std::min(count - 1, first + first % 50)});
  }
  EXPECT_EQ(plan_memory(lifetimes, count).total_bytes, alone);
}

}  // namespace
}  // namespace pando
