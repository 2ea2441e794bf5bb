#include "pando/compile/schedule.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "pando/compile/fusion_groups.hpp"
#include "tests/cpp/ir/ir_fixture.hpp"

namespace pando::testing {
namespace {

class ScheduleTest : public ::testing::Test {
 protected:
  ScheduleTest() { op_registry(); }

  Tensor* filled(const std::string& name, const Shape& shape) {
    return variable(main_, name, std::vector<float>(static_cast<std::size_t>(num_elements(shape))),
                    shape);
  }

  std::ptrdiff_t position_of(const Op* op) const {
    const std::vector<Op*>& ops = main_.ops();
    return std::find(ops.begin(), ops.end(), op) - ops.begin();
  }

  /// Makes much alive for a moment; what reads the result comes after that.
  Tensor* reach_peak() {
    Tensor* large = builder_.make("Exp", {filled("large", {1 << 16})});
    return builder_.make("ReduceSum", {large}, {{"axes", Ints{0}}, {"keepdims", false}});
  }

  Tensor* after(Tensor* first, const std::string& name, const Shape& shape) {
    return builder_.make("Add", {filled(name, shape), first});
  }

  /// Results that are alive until both are there.
  const Op* make_kept(Tensor* first) {
    Tensor* one = after(first, "one", {512});
    Tensor* other = after(first, "other", {512});
    store(main_, builder_.make("Concat", {one, other}, {{"axis", std::int64_t{0}}}));
    return one->producer();
  }

  const Op* make_update(Tensor* first) {
    Tensor* step = after(first, "gradient", {4096});
    return &builder_.op("AddLhsInplace", {filled("weights", {4096}), step});
  }

  Ir ir_;
  Graph& main_ = ir_.main_graph();
  OpBuilder builder_{main_, {}};
};

TEST_F(ScheduleTest, WhatAnUpdateFreesCountsForWhatItWaitsFor) {
  Tensor* first = reach_peak();
  const Op* kept = make_kept(first);
  const Op* update = make_update(first);
  schedule_for_memory(ir_);
  EXPECT_LT(position_of(update), position_of(kept));
}

TEST_F(ScheduleTest, WhatWouldRaiseThePeakWaits) {
  Tensor* first = filled("first", {});
  const Op* kept = make_kept(first);
  const Op* update = make_update(first);
  schedule_for_memory(ir_);
  EXPECT_LT(position_of(kept), position_of(update));
}

TEST_F(ScheduleTest, ReadersOfViewsComeBeforeWrites) {
  reach_peak();
  Tensor* weights = filled("weights", {64, 64});
  Tensor* turned = builder_.make("Transpose", {weights}, {{"permutation", Ints{1, 0}}});
  Tensor* step = builder_.make("Exp", {filled("gradient", {64, 64})});
  Tensor* read = builder_.make("MatMul", {turned, filled("columns", {64, 64})});
  const Op& update = builder_.op("AddLhsInplace", {weights, step});
  store(main_, read);
  schedule_for_memory(ir_);
  EXPECT_LT(position_of(read->producer()), position_of(&update));
}

// The update of the weights cannot join the step of the moment's: another op reads them in between.
TEST_F(ScheduleTest, WhatIsReadOnceIsFusedWithItsReader) {
  const Shape shape = {64, 64};
  Tensor* moment = filled("moment", shape);
  Tensor* weights = filled("weights", shape);
  builder_.op("AddLhsInplace", {moment, filled("gradient", shape)});
  store(main_, builder_.make("MatMul", {weights, filled("columns", shape)}));
  Tensor* step = builder_.make("Sqrt", {moment});
  const Op& update = builder_.op("AddLhsInplace", {weights, step});
  const Placements placements(main_);
  EffectNames effects;
  const ExecutionSteps steps = form_steps(main_, placements, 64, effects);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const auto& ops = steps[i].ops;
    const auto has = [&](const Op* op) {
      return std::find(ops.begin(), ops.end(), op) != ops.end();
    };
    EXPECT_EQ(has(step->producer()), has(&update));
  }
}

}  // namespace
}  // namespace pando::testing
