// Properties of the memory planner and the scheduler on random input.
#include <gtest/gtest.h>

#include <algorithm>
#include <unordered_map>

#include "pando/compile/memory_plan.hpp"
#include "pando/compile/schedule.hpp"
#include "pando/session/session.hpp"
#include "pando/transforms/dependencies.hpp"
#include "tests/cpp/fuzz/generator.hpp"

namespace pando::fuzz {
namespace {

std::vector<Lifetime> random_lifetimes(Random& random, int count, int instructions) {
  std::uniform_int_distribution<int> when(0, instructions - 1), how_long(0, 12), size(0, 12);
  std::vector<Lifetime> lifetimes;
  for (int i = 0; i < count; ++i) {
    const int first = when(random);
    const int last = std::min(first + how_long(random), instructions - 1);
    const std::int64_t bytes = (std::int64_t{1} << size(random)) + when(random);
    lifetimes.push_back({bytes, first, last});
  }
  return lifetimes;
}

bool share_memory(const MemoryPlan& plan, const std::vector<Lifetime>& lifetimes, std::size_t a,
                  std::size_t b) {
  return plan.offsets[a] < plan.offsets[b] + lifetimes[b].bytes &&
         plan.offsets[b] < plan.offsets[a] + lifetimes[a].bytes;
}

bool alive_together(const Lifetime& a, const Lifetime& b) {
  return a.first <= b.last && b.first <= a.last;
}

TEST(RandomPlans, AliveStoragesNeverOverlap) {
  Random random(11);
  for (int round = 0; round < 100; ++round) {
    const int instructions = 1 + round;
    const std::vector<Lifetime> lifetimes = random_lifetimes(random, 2 * round, instructions);
    const MemoryPlan plan = plan_memory(lifetimes, instructions);
    for (std::size_t a = 0; a < lifetimes.size(); ++a) {
      EXPECT_EQ(plan.offsets[a] % kStorageAlignment, 0);
      EXPECT_LE(plan.offsets[a] + lifetimes[a].bytes, plan.total_bytes);
      for (std::size_t b = 0; b < a; ++b) {
        if (!alive_together(lifetimes[a], lifetimes[b])) continue;
        ASSERT_FALSE(share_memory(plan, lifetimes, a, b))
            << "round " << round << ", storages " << a << " and " << b;
      }
    }
  }
}

TEST(RandomPlans, LowerBoundIsTheMostAliveAtOnce) {
  Random random(12);
  for (int round = 0; round < 50; ++round) {
    const std::vector<Lifetime> lifetimes = random_lifetimes(random, 60, 40);
    const MemoryPlan plan = plan_memory(lifetimes, 40);
    std::int64_t most = 0;
    for (int i = 0; i < 40; ++i) {
      std::int64_t alive = 0;
      for (const Lifetime& life : lifetimes) {
        if (life.first <= i && i <= life.last) alive += align_bytes(life.bytes);
      }
      EXPECT_EQ(plan.timeline[static_cast<std::size_t>(i)], alive);
      most = std::max(most, alive);
    }
    EXPECT_EQ(plan.lower_bound_bytes, most);
    EXPECT_GE(plan.total_bytes, most);
  }
}

TEST(RandomPlans, PeakIsCloseToTheLowerBoundForRandomGraphs) {
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    const FuzzProgram program = random_program(seed, false);
    const Session session(*program.ir, {{}, {.num_threads = 1}});
    const MemoryReport& memory = session.program().memory;
    EXPECT_LE(static_cast<double>(memory.peak_frame_bytes),
              1.05 * static_cast<double>(memory.frame_lower_bound_bytes))
        << "seed " << seed;
  }
}

TEST(RandomSchedules, KeepEveryDependency) {
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    const FuzzProgram program = random_program(seed, false);
    struct Before {
      std::vector<Op*> ops;
      OpPredecessors predecessors;
    };
    std::vector<Before> graphs;
    EffectNames effects;
    for (Graph* graph : program.ir->graphs()) {
      graphs.push_back({graph->ops(), dependencies(*graph, AliasClasses(*graph), effects)});
    }
    schedule_for_memory(*program.ir);
    for (std::size_t g = 0; g < graphs.size(); ++g) {
      const auto& [before, predecessors] = graphs[g];
      const std::vector<Op*> after = program.ir->graphs()[g]->ops();
      ASSERT_EQ(after.size(), before.size());
      std::unordered_map<const Op*, std::size_t> position;
      for (std::size_t i = 0; i < after.size(); ++i) position[after[i]] = i;
      for (std::size_t i = 0; i < before.size(); ++i) {
        for (int earlier : predecessors.of(i)) {
          EXPECT_LT(position.at(before[static_cast<std::size_t>(earlier)]), position.at(before[i]))
              << "seed " << seed << ", " << describe(*before[i]);
        }
      }
    }
  }
}

}  // namespace
}  // namespace pando::fuzz
