// The order of ops and the uses of tensors, after any sequence of changes.
#include <gtest/gtest.h>

#include <algorithm>
#include <list>
#include <random>
#include <vector>

#include "pando/ir/call_order.hpp"
#include "pando/ir/graph_surgery.hpp"
#include "pando/ir/numbered_map.hpp"
#include "pando/ir/verifier.hpp"
#include "pando/ops/ops.hpp"

namespace pando::testing {
namespace {

/// Changes a graph of unary and binary ops and calls and a plain model of it alike.
class RandomEdits {
 public:
  explicit RandomEdits(unsigned seed)
      : random_(seed), main_(ir_.main_graph()), callee_(ir_.create_graph("callee")) {
    Tensor* x = callee_.add_input(callee_.unique_tensor_id("x"), {DType::Float32, {2}, {}});
    callee_.mark_output(OpBuilder(callee_, {}).make("Neg", {x}));
    for (const char* name : {"a", "b", "c"}) {
      tensors_.push_back(main_.add_input(name, {DType::Float32, {2}, {}}));
      uses_.emplace_back();
    }
  }

  void step() {
    switch (random_() % 6) {
      case 0:
      case 1:
        return create(nullptr);
      case 2:
        return order_.empty() ? create(nullptr) : create(*any_op());
      case 3:
        return erase();
      case 4:
        return random_() % 8 == 0 ? reorder() : move_input();
      default:
        return replace_uses();
    }
  }

  void check() const {
    const std::vector<Op*> wanted(order_.begin(), order_.end());
    const pando::OpList& list = main_.op_list();
    ASSERT_EQ(list.size(), wanted.size());
    std::vector<Op*> forward, backward;
    for (Op* op = list.first(); op != nullptr; op = op->next()) forward.push_back(op);
    for (Op* op = list.last(); op != nullptr; op = op->previous()) backward.push_back(op);
    std::reverse(backward.begin(), backward.end());
    ASSERT_EQ(forward, wanted);
    ASSERT_EQ(backward, wanted);
    const auto callers = std::count_if(wanted.begin(), wanted.end(),
                                       [](const Op* op) { return !op->called_graphs.empty(); });
    ASSERT_EQ(list.num_callers(), static_cast<std::size_t>(callers));
    ASSERT_EQ(called_graphs(main_).empty(), callers == 0);
    check_kinds(wanted);
    check_numbers(wanted);
    // Asking now and then: what is appended in between must be there, too.
    if (wanted.size() % 3 != 0) {
      ASSERT_EQ(main_.ops(), wanted);
    }
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      const UseList& uses = tensors_[i]->uses();
      ASSERT_EQ(std::vector<Use>(uses.begin(), uses.end()),
                std::vector<Use>(uses_[i].begin(), uses_[i].end()));
      ASSERT_EQ(uses.size(), uses_[i].size());
      ASSERT_EQ(uses.empty(), uses_[i].empty());
      if (!uses.empty()) {
        ASSERT_EQ(uses.front(), uses_[i].front());
      }
    }
  }

  void check_kinds(const std::vector<Op*>& wanted) const {
    for (const char* name : {"Add", "Neg", "Call"}) {
      const OpDef& def = op_registry().get(name);
      const bool there = std::any_of(wanted.begin(), wanted.end(),
                                     [&](const Op* op) { return &op->def() == &def; });
      ASSERT_EQ(main_.op_list().any_kind([&](const OpDef& one) { return &one == &def; }), there);
      ASSERT_EQ(main_.op_list().has(def.kind), there);
    }
  }

  void check_numbers(const std::vector<Op*>& wanted) const {
    OpMap<const Op*> by_number(nullptr);
    for (const Op* op : wanted) {
      ASSERT_EQ(by_number.at(op), nullptr);
      by_number[op] = op;
    }
    for (const Op* op : wanted) ASSERT_EQ(by_number.at(op), op);
  }

  /// From the first call on, ops are listed by their ids.
  void check_ids() const {
    const pando::OpList& list = main_.op_list();
    for (Op* op : order_) {
      ASSERT_TRUE(list.has(op->id()));
      ASSERT_EQ(list.find(op->id()), op);
    }
    for (const std::int64_t id : erased_ids_) {
      ASSERT_FALSE(list.has(id));
      ASSERT_EQ(list.find(id), nullptr);
    }
    ASSERT_FALSE(list.has(ir_.counters().op_id));
  }

  /// In any order: inputs of the graph only, as ops may come in any order.
  Tensor* input() { return tensors_[random_() % 3]; }

  const Ir& ir() const { return ir_; }

 private:
  std::list<Op*>::iterator any_op() {
    return std::next(order_.begin(), static_cast<std::ptrdiff_t>(random_() % order_.size()));
  }
  std::list<Use>& uses_of(const Tensor* tensor) {
    return uses_[static_cast<std::size_t>(std::find(tensors_.begin(), tensors_.end(), tensor) -
                                          tensors_.begin())];
  }

  void create(Op* before) {
    const bool binary = random_() % 2 == 0;
    std::vector<Tensor*> inputs = {input()};
    if (binary) inputs.push_back(input());
    const bool calls = !binary && random_() % 3 == 0;
    main_.set_insertion_point(before);
    Op& op = calls ? main_.create_op(op_registry().get("Call"), inputs, {}, {}, {&callee_})
                   : OpBuilder(main_, {}).op(binary ? "Add" : "Neg", inputs);
    main_.set_insertion_point(nullptr);
    order_.insert(std::find(order_.begin(), order_.end(), before), &op);
    for (int i = 0; i < op.num_inputs(); ++i) uses_of(op.input(i)).push_back({&op, i});
    tensors_.push_back(op.output(0));
    uses_.emplace_back();
  }

  void erase() {
    std::vector<Op*> erased;
    for (int i = 0; i < 3 && !order_.empty(); ++i) {
      const auto at = any_op();
      if (!uses_of((*at)->output(0)).empty()) continue;
      erased.push_back(*at);
      erased_ids_.push_back((*at)->id());
      order_.erase(at);
    }
    for (Op* op : erased) {
      for (int i = 0; i < op->num_inputs(); ++i) uses_of(op->input(i)).remove({op, i});
    }
    main_.erase_ops(erased);
  }

  void move_input() {
    if (order_.empty()) return;
    Op* op = *any_op();
    const auto index = static_cast<int>(random_() % static_cast<unsigned>(op->num_inputs()));
    uses_of(op->input(index)).remove({op, index});
    op->set_input(index, input());
    uses_of(op->input(index)).push_back({op, index});
  }

  void replace_uses() {
    Tensor* from = tensors_[random_() % tensors_.size()];
    Tensor* to = input();
    if (from == to) return;
    pando::replace_uses(*from, *to);
    uses_of(to).splice(uses_of(to).end(), uses_of(from));
  }

  void reorder() {
    std::vector<Op*> order(order_.begin(), order_.end());
    std::shuffle(order.begin(), order.end(), random_);
    order_.assign(order.begin(), order.end());
    main_.reorder(std::move(order));
  }

  Ir ir_;
  std::mt19937 random_;
  Graph& main_;
  Graph& callee_;
  std::list<Op*> order_;
  std::vector<std::int64_t> erased_ids_;
  std::vector<Tensor*> tensors_;
  std::vector<std::list<Use>> uses_;  // as tensors_
};

class OpList : public ::testing::TestWithParam<unsigned> {};

TEST_P(OpList, KeepsOrderAndUsesThroughRandomEdits) {
  op_registry();
  RandomEdits edits(GetParam());
  for (int step = 0; step < 400; ++step) {
    edits.step();
    edits.check();
    if (step >= 200) edits.check_ids();
    if (HasFatalFailure()) FAIL() << "in step " << step;
  }
  verify(edits.ir(), "");
}

INSTANTIATE_TEST_SUITE_P(Seeds, OpList, ::testing::Range(0U, 12U));

TEST(OpList, AnOpGetsInputsOneByOne) {
  op_registry();
  Ir ir;
  Graph& main = ir.main_graph();
  Tensor* x = main.add_input("x", {DType::Float32, {2}, {}});
  Tensor* y = main.add_input("y", {DType::Float32, {2}, {}});
  Op& op = OpBuilder(main, {}).op("Concat", {x, x, x}, {{"axis", std::int64_t{0}}});
  std::vector<Use> uses = {{&op, 0}, {&op, 1}, {&op, 2}};
  for (int i = 3; i < 100; ++i) {
    op.set_input(i, x);
    uses.push_back({&op, i});
    ASSERT_EQ(std::vector<Use>(x->uses().begin(), x->uses().end()), uses);
  }
  for (int i = 99; i >= 0; i -= 3) op.set_input(i, y);
  std::erase_if(uses, [](const Use& use) { return use.index % 3 == 0; });
  EXPECT_EQ(std::vector<Use>(x->uses().begin(), x->uses().end()), uses);
  EXPECT_EQ(y->uses().size(), 34U);
  EXPECT_EQ(y->uses().front(), (Use{&op, 99}));
}

TEST(OpList, OutputsAreKnownHoweverTheyChange) {
  op_registry();
  Ir ir;
  Graph& main = ir.main_graph();
  Tensor* x = main.add_input("x", {DType::Float32, {2}, {}});
  Tensor* y = OpBuilder(main, {}).make("Neg", {x});
  EXPECT_FALSE(y->is_graph_output());
  main.mark_output(y);
  main.mark_output(y);
  remove_output(main, 0);
  EXPECT_TRUE(y->is_graph_output());
  replace_uses(*y, *x);
  EXPECT_FALSE(y->is_graph_output());
  EXPECT_TRUE(x->is_graph_output());
  main.set_outputs({y, y});
  EXPECT_TRUE(y->is_graph_output());
  EXPECT_FALSE(x->is_graph_output());
  main.set_outputs({});
  EXPECT_FALSE(y->is_graph_output());
}

}  // namespace
}  // namespace pando::testing
