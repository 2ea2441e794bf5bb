// Which ops run before which, and the check for unordered writes, against plain reachability.
#include <gtest/gtest.h>

#include <random>
#include <set>
#include <vector>

#include "pando/base/error.hpp"
#include "pando/ops/ops.hpp"
#include "pando/transforms/dependencies.hpp"
#include "pando/transforms/inplace_ambiguity.hpp"
#include "pando/transforms/op_order.hpp"
#include "tests/cpp/memory_limit.hpp"

namespace pando::testing {
namespace {

using Reachable = std::vector<std::set<int>>;  // by op: what it runs after

/// Through producers of inputs and `Op::after`, as sets.
Reachable plain_order(const Graph& graph) {
  Reachable result;
  const std::vector<Op*>& ops = graph.ops();
  for (std::size_t i = 0; i < ops.size(); ++i) {
    std::set<int> all;
    for (std::size_t j = 0; j < i; ++j) {
      bool direct = false;
      for (const Tensor* input : ops[i]->inputs()) direct = direct || input->producer() == ops[j];
      for (const Op* earlier : ops[i]->after()) direct = direct || earlier == ops[j];
      if (!direct) continue;
      all.insert(static_cast<int>(j));
      all.insert(result[j].begin(), result[j].end());
    }
    result.push_back(std::move(all));
  }
  return result;
}

/// Ops that read and write three variables, in place or not, some of them in sequence.
void fill(Graph& graph, std::mt19937& random, int count) {
  std::vector<Tensor*> tensors;
  for (const char* name : {"u", "v", "w"}) {
    tensors.push_back(graph.add_input(name, {DType::Float32, {2}, {}}, true));
  }
  const auto any = [&] {
    // Mostly recent ones, so that long ways exist.
    const auto n = tensors.size();
    return tensors[random() % 3 == 0 ? random() % n
                                     : n - 1 - random() % std::min<std::size_t>(n, 4)];
  };
  Op* last = nullptr;
  for (int i = 0; i < count; ++i) {
    const char* kind = random() % 6 == 0 ? "AddLhsInplace" : "Add";
    Tensor* first = random() % 8 == 0 ? tensors[random() % 3] : any();
    Op& op = OpBuilder(graph, {}).op(kind, {first, any()});
    if (last != nullptr && random() % 5 != 0) op.run_after(*last);
    if (random() % 3 == 0) last = &op;
    tensors.push_back(op.output(0));
  }
}

/// Whether two ops access one storage, one of them writes it, and no order is between them.
bool is_ambiguous(const Graph& graph, const Reachable& before) {
  const AliasClasses aliases(graph);
  const std::vector<Op*>& ops = graph.ops();
  for (std::size_t j = 0; j < ops.size(); ++j) {
    for (std::size_t i = 0; i < j; ++i) {
      if (before[j].contains(static_cast<int>(i))) continue;
      for (int a = 0; a < 2; ++a) {
        for (int b = 0; b < 2; ++b) {
          const bool writes =
              ops[i]->modified_inputs().contains(a) || ops[j]->modified_inputs().contains(b);
          if (writes && aliases.root(ops[i]->input(a)) == aliases.root(ops[j]->input(b))) {
            return true;
          }
        }
      }
    }
  }
  return false;
}

TEST(OpOrder, IsReachability) {
  op_registry();
  std::mt19937 random(5);
  for (int round = 0; round < 30; ++round) {
    Ir ir;
    const int count = 2 + static_cast<int>(random() % 200);
    fill(ir.main_graph(), random, count);
    const Reachable before = plain_order(ir.main_graph());
    std::vector<OpPair> pairs;
    for (int i = 0; i < 600; ++i) {
      // Some ops have many pairs, at either end.
      const int later = 1 + static_cast<int>(random() % static_cast<unsigned>(count - 1));
      pairs.push_back({static_cast<int>(random() % static_cast<unsigned>(later)), later});
      if (i % 2 == 0) pairs.back().earlier = 0;
      if (i % 5 == 0) pairs.back().later = count - 1;
      if (pairs.back().earlier == pairs.back().later) pairs.pop_back();
    }
    const std::vector<bool> ordered = OpOrder(ir.main_graph()).are_ordered(pairs);
    ASSERT_EQ(ordered.size(), pairs.size());
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      const auto later = static_cast<std::size_t>(pairs[i].later);
      ASSERT_EQ(ordered[i], before[later].contains(pairs[i].earlier))
          << "ops " << pairs[i].earlier << " and " << pairs[i].later << " of round " << round;
    }
  }
}

TEST(OpOrder, UnorderedWritesAreFoundAsByLookingAtAllPairs) {
  op_registry();
  std::mt19937 random(6);
  int refused = 0;
  constexpr int kRounds = 400;
  for (int round = 0; round < kRounds; ++round) {
    Ir ir;
    fill(ir.main_graph(), random, 2 + static_cast<int>(random() % 12));
    const bool wanted = is_ambiguous(ir.main_graph(), plain_order(ir.main_graph()));
    refused += wanted ? 1 : 0;
    if (wanted) {
      EXPECT_THROW(check_inplace_ambiguity(ir), Error) << "round " << round;
    } else {
      EXPECT_NO_THROW(check_inplace_ambiguity(ir)) << "round " << round;
    }
  }
  // Both happen often.
  EXPECT_GT(refused, kRounds / 10);
  EXPECT_LT(refused, kRounds * 9 / 10);
}

/// A row of bits for each op would take 800 MB.
TEST(OpOrder, TheCheckTakesMemoryForOpsNotForPairsOfThem) {
  op_registry();
  Ir ir;
  Graph& main = ir.main_graph();
  Tensor* w = main.add_input("w", {DType::Float32, {2}, {}}, true);
  OpBuilder ops(main, {});
  Tensor* x = w;
  for (int i = 0; i < 80'000; ++i) x = ops.make("Add", {x, w});
  ops.make("AddLhsInplace", {w, x});
  const MemoryLimit limit;
  EXPECT_NO_THROW(check_inplace_ambiguity(ir));
}

}  // namespace
}  // namespace pando::testing
