// Which layout each kernel works in.
#include "pando/compile/layout_choice.hpp"

#include <gtest/gtest.h>

#include <random>

namespace pando::testing {
namespace {

/// Users and values as they are given to LayoutChoice.
struct Problem {
  std::vector<std::int64_t> first_bytes;  // by user
  struct Value {
    std::int64_t bytes;
    bool is_first;
    std::vector<std::size_t> users;
  };
  std::vector<Value> values;

  std::vector<bool> chosen() const {
    LayoutChoice choice;
    for (const std::int64_t bytes : first_bytes) choice.add_user(bytes);
    for (const Value& value : values) {
      const std::size_t index = choice.add_value(value.bytes, value.is_first);
      for (const std::size_t user : value.users) choice.add_use(user, index);
    }
    return choice.run();
  }

  std::int64_t cost(const std::vector<bool>& is_other) const {
    std::int64_t bytes = 0;
    for (std::size_t i = 0; i < first_bytes.size(); ++i) {
      if (!is_other[i]) bytes += first_bytes[i];
    }
    for (const Value& value : values) {
      bool first = value.is_first, other = false;
      for (const std::size_t user : value.users) (is_other[user] ? other : first) = true;
      if (first && other) bytes += value.bytes;
    }
    return bytes;
  }

  std::int64_t least_cost() const {
    std::int64_t least = cost(std::vector<bool>(first_bytes.size()));
    for (std::size_t bits = 1; bits < std::size_t{1} << first_bytes.size(); ++bits) {
      std::vector<bool> is_other;
      for (std::size_t i = 0; i < first_bytes.size(); ++i) is_other.push_back((bits >> i & 1) != 0);
      least = std::min(least, cost(is_other));
    }
    return least;
  }
};

Problem random_problem(unsigned seed, bool is_chain) {
  std::mt19937 random(seed);
  Problem problem;
  const std::size_t users = 1 + random() % 8;
  for (std::size_t i = 0; i < users; ++i) {
    problem.first_bytes.push_back(random() % 2 == 0 ? 0 : static_cast<std::int64_t>(random() % 20));
  }
  for (std::size_t i = 0; i <= users; ++i) {
    Problem::Value value{1 + static_cast<std::int64_t>(random() % 10), random() % 4 == 0, {}};
    for (std::size_t user = 0; user < users; ++user) {
      const bool uses = is_chain ? user == i || user + 1 == i : random() % 3 == 0;
      if (uses) value.users.push_back(user);
    }
    if (is_chain && (i == 0 || i == users)) value.is_first = true;
    problem.values.push_back(value);
  }
  return problem;
}

TEST(LayoutChoice, CopiesNoMoreThanWithoutAndMostlyAsLittleAsPossible) {
  int best = 0;
  constexpr unsigned kProblems = 400;
  for (unsigned seed = 0; seed < kProblems; ++seed) {
    const Problem problem = random_problem(seed, seed % 2 == 0);
    const std::int64_t cost = problem.cost(problem.chosen());
    EXPECT_LE(cost, problem.cost(std::vector<bool>(problem.first_bytes.size()))) << seed;
    best += cost == problem.least_cost() ? 1 : 0;
  }
  EXPECT_GE(best, static_cast<int>(kProblems * 9 / 10));
}

TEST(LayoutChoice, KeepsTheFirstLayoutWhereNothingIsGained) {
  // One that reorders what it reads and writes, and one that reorders nothing.
  const Problem alone = {{2}, {{1, true, {0}}, {1, true, {0}}}};
  EXPECT_EQ(alone.chosen(), std::vector<bool>(1, false));
  const Problem indifferent = {{0, 0}, {{1, false, {0, 1}}}};
  EXPECT_EQ(indifferent.chosen(), std::vector<bool>(2, false));
}

TEST(LayoutChoice, CutsAChainWhereLeastIsCopied) {
  // Two that reorder, and one behind them that makes a smaller value for others.
  const Problem chain = {{8, 8, 0},
                         {{4, true, {0}}, {4, false, {0, 1}}, {4, false, {1, 2}}, {1, true, {2}}}};
  EXPECT_EQ(chain.chosen(), std::vector<bool>(3, true));
}

}  // namespace
}  // namespace pando::testing
