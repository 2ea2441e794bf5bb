#include "pando/compile/memory_plan.hpp"

#include <algorithm>
#include <iterator>
#include <limits>
#include <numeric>
#include <random>
#include <utility>

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

/// Free parts of an address space without an end.
class Gaps {
 public:
  /// The lowest offset with so many bytes free, which are taken.
  std::int64_t take(std::int64_t bytes) {
    auto gap = gaps_.begin();
    while (gap->end - gap->begin < bytes) ++gap;
    const std::int64_t offset = gap->begin;
    gap->begin += bytes;
    if (gap->begin == gap->end) gaps_.erase(gap);
    return offset;
  }

  void give_back(std::int64_t begin, std::int64_t end) {
    if (begin == end) return;
    const auto after =
        std::lower_bound(gaps_.begin(), gaps_.end(), begin,
                         [](const Gap& gap, std::int64_t at) { return gap.begin < at; });
    const bool joins_after = after != gaps_.end() && after->begin == end;
    const bool joins_before = after != gaps_.begin() && std::prev(after)->end == begin;
    if (joins_before) {
      std::prev(after)->end = joins_after ? after->end : end;
      if (joins_after) gaps_.erase(after);
    } else if (joins_after) {
      after->begin = begin;
    } else {
      gaps_.insert(after, {begin, end});
    }
  }

 private:
  struct Gap {
    std::int64_t begin;
    std::int64_t end;
  };
  /// By where they begin, none empty. Looking for room goes through them anyway.
  std::vector<Gap> gaps_ = {{0, std::numeric_limits<std::int64_t>::max()}};
};

/// Positions in `lifetimes`, those that begin first in front; of equal ones in their order.
std::vector<int> in_order_of_begin(const std::vector<Lifetime>& lifetimes, int num_instructions) {
  std::vector<int> next(static_cast<std::size_t>(num_instructions) + 1);  // place, by instruction
  for (const Lifetime& life : lifetimes) ++next[static_cast<std::size_t>(life.first) + 1];
  std::partial_sum(next.begin(), next.end(), next.begin());
  std::vector<int> order(lifetimes.size());
  for (std::size_t i = 0; i < lifetimes.size(); ++i) {
    const int place = next[static_cast<std::size_t>(lifetimes[i].first)]++;
    order[static_cast<std::size_t>(place)] = static_cast<int>(i);
  }
  return order;
}

/// Lowest offset where each storage fits, in an order in which they begin: those that are past are
/// forgotten, so this is by far the fastest.
std::int64_t place_in_time(const std::vector<Lifetime>& lifetimes, const std::vector<int>& order,
                           int num_instructions, std::vector<std::int64_t>& offsets) {
  // By instruction: the storage placed last of those that end there, and each storage's other one.
  std::vector<int> ending(static_cast<std::size_t>(num_instructions), -1);
  std::vector<int> also_ending(lifetimes.size(), -1);
  Gaps gaps;
  std::int64_t total = 0;
  int past = 0;
  for (int index : order) {
    const auto i = static_cast<std::size_t>(index);
    const Lifetime& life = lifetimes[i];
    for (; past < life.first; ++past) {
      for (int ended = ending[static_cast<std::size_t>(past)]; ended >= 0;) {
        const auto e = static_cast<std::size_t>(ended);
        gaps.give_back(offsets[e], offsets[e] + align_bytes(lifetimes[e].bytes));
        ended = also_ending[e];
      }
    }
    offsets[i] = gaps.take(align_bytes(life.bytes));
    total = std::max(total, offsets[i] + align_bytes(life.bytes));
    also_ending[i] = std::exchange(ending[static_cast<std::size_t>(life.last)], index);
  }
  return total;
}

/// Lowest offset where each storage fits, in the given order: compares each pair of them.
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

/// Tries orders of placement and keeps the plan with the lowest peak.
class Planner {
 public:
  Planner(const std::vector<Lifetime>& lifetimes, MemoryPlan& plan)
      : lifetimes_(lifetimes), plan_(plan), offsets_(lifetimes.size()) {
    const int num_instructions = static_cast<int>(plan.timeline.size());
    order_ = in_order_of_begin(lifetimes_, num_instructions);
    plan_.total_bytes = place_in_time(lifetimes_, order_, num_instructions, plan.offsets);
  }

  /// The storages with the highest keys first.
  template <class Key>
  void attempt(Key key) {
    const std::int64_t excess = plan_.total_bytes - plan_.lower_bound_bytes;
    const bool is_worth_it = excess > plan_.lower_bound_bytes / kGoodEnough &&
                             (excess > kWorthImproving || pairs() <= kFewPairs);
    if (is_worth_it && can_place()) place(sorted(key));
  }

  /// While the plan is far above the bound: what sticks out on top is placed first.
  void repair() {
    std::vector<int> order = order_;
    for (int i = 0; i < kMaxRepairs && is_far_above_bound() && can_place(); ++i) {
      const auto highest = std::max_element(order.begin(), order.end(),
                                            [&](int a, int b) { return end(a) < end(b); });
      std::rotate(order.begin(), highest, highest + 1);
      place(order);
    }
  }

  /// While the plan is far above the bound: moves a storage of the best order, by turns any one and
  /// one that sticks out above the bound, to a place chosen by chance, and keeps what is no worse.
  void improve() {
    const auto n = static_cast<std::int64_t>(order_.size());
    std::minstd_rand random(1);
    for (std::int64_t tries = kPlacementsToImprove / std::max<std::int64_t>(1, n * n);
         tries > 0 && is_far_above_bound() && can_place(); --tries) {
      std::vector<int> order = order_;
      const auto to = order.begin() + static_cast<std::int64_t>(random() % order.size());
      auto from = order.begin() + static_cast<std::int64_t>(random() % order.size());
      if (tries % 2 == 0) {
        const auto sticks_out = [&](int index) {
          return best_end(index) > plan_.lower_bound_bytes;
        };
        const auto next = std::find_if(from, order.end(), sticks_out);
        from = next != order.end() ? next : std::find_if(order.begin(), order.end(), sticks_out);
      }
      if (from < to) {
        std::rotate(from, from + 1, to + 1);
      } else {
        std::rotate(to, from, from + 1);
      }
      place(order);
    }
  }

 private:
  static constexpr int kMaxRepairs = 32;
  static constexpr std::int64_t kWorthImproving = 8 << 10;  // bytes
  /// A millisecond.
  static constexpr std::int64_t kFewPairs = 1'000'000;
  /// Pairs of storages that are compared at most: some milliseconds.
  static constexpr std::int64_t kPlacementsToImprove = 4'000'000;

  std::int64_t pairs() const {
    const auto n = static_cast<std::int64_t>(lifetimes_.size());
    return n * (n - 1) / 2;
  }
  /// Whether one placement more does not take too long.
  bool can_place() const { return plan_.compared_pairs + pairs() <= kMostComparedPairs; }
  bool is_far_above_bound() const {
    const std::int64_t excess = plan_.total_bytes - plan_.lower_bound_bytes;
    return excess > std::max(kWorthImproving, plan_.lower_bound_bytes / 20);
  }
  /// Where the storage ends as it was placed last.
  std::int64_t end(int index) const {
    const auto i = static_cast<std::size_t>(index);
    return offsets_[i] + align_bytes(lifetimes_[i].bytes);
  }
  /// In the best plan.
  std::int64_t best_end(int index) const {
    const auto i = static_cast<std::size_t>(index);
    return plan_.offsets[i] + align_bytes(lifetimes_[i].bytes);
  }
  void place(const std::vector<int>& order) {
    plan_.compared_pairs += pairs();
    const std::int64_t total = place_in_order(lifetimes_, order, offsets_);
    if (total > plan_.total_bytes) return;
    plan_.total_bytes = total;
    plan_.offsets = offsets_;
    order_ = order;
  }
  template <class Key>
  std::vector<int> sorted(Key key) const {
    std::vector<int> order(lifetimes_.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
      return key(lifetimes_[static_cast<std::size_t>(a)]) >
             key(lifetimes_[static_cast<std::size_t>(b)]);
    });
    return order;
  }

  const std::vector<Lifetime>& lifetimes_;
  MemoryPlan& plan_;
  std::vector<std::int64_t> offsets_;  // of the last placement
  std::vector<int> order_;             // of the best one
};

}  // namespace

MemoryPlan plan_memory(const std::vector<Lifetime>& lifetimes, int num_instructions) {
  MemoryPlan plan;
  plan.offsets.assign(lifetimes.size(), 0);
  plan.timeline = alive_bytes(lifetimes, num_instructions);
  for (std::int64_t bytes : plan.timeline) {
    plan.lower_bound_bytes = std::max(plan.lower_bound_bytes, bytes);
  }
  Planner planner(lifetimes, plan);
  planner.attempt([](const Lifetime& life) { return life.bytes; });
  planner.attempt([](const Lifetime& life) { return life.bytes * (life.last - life.first + 1); });
  planner.repair();
  planner.improve();
  return plan;
}

}  // namespace pando
