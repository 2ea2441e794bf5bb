// Which outputs kernels compute.
#include <gtest/gtest.h>

#include <algorithm>

#include "pando/compile/pipeline.hpp"
#include "tests/cpp/compile/wrapped_target.hpp"
#include "tests/cpp/ir/ir_fixture.hpp"

namespace pando::testing {
namespace {

constexpr std::int64_t kSteps = 3, kBatch = 2, kHidden = 64;

class OptionalOutputs : public ::testing::Test {
 protected:
  OptionalOutputs() { op_registry(); }

  /// An LSTM whose outputs at these places the host gets.
  Program compile_layer(const std::vector<int>& wanted) {
    Ir ir;
    Graph& main = ir.main_graph();
    OpBuilder ops(main, {});
    const auto given = [&](const char* name, const Shape& shape) {
      return variable(main, name, std::vector<float>(num_elements(shape), 0.5f), shape);
    };
    const Op& layer = ops.op(
        "RecurrentSequence",
        {given("parts", {kSteps, kBatch, 4 * kHidden}), given("weights", {4 * kHidden, kHidden})},
        {{"cell", "lstm"}});
    for (const int i : wanted) store(main, layer.output(i));
    WrappedTarget target;
    StageTimes times;
    return compile(ir, target, {}, times);
  }

  static Ints absent(const Program& program) {
    const auto& all = program.kernels;
    const auto kernel = std::find_if(all.begin(), all.end(), [](const KernelSpec& spec) {
      return spec.kind == "RecurrentSequence";
    });
    if (kernel == all.end()) return {-1};
    return kernel->attributes.has("absent_outputs") ? kernel->attributes.ints("absent_outputs")
                                                    : Ints{};
  }
};

TEST_F(OptionalOutputs, AreNotComputedWhereNothingUsesThem) {
  EXPECT_EQ(absent(compile_layer({0, 1, 2})), Ints{});
  EXPECT_EQ(absent(compile_layer({0, 2})), Ints{1});
  EXPECT_EQ(absent(compile_layer({0})), (Ints{1, 2}));
  // The states are no optional output.
  EXPECT_EQ(absent(compile_layer({1, 2})), Ints{});
}

TEST_F(OptionalOutputs, TakeNoMemoryWhereNothingUsesThem) {
  const auto peak = [&](const std::vector<int>& wanted) {
    return compile_layer(wanted).memory.devices.front().total_bytes();
  };
  const std::int64_t states = kSteps * kBatch * kHidden * 4;
  EXPECT_GE(peak({0, 1, 2}) - peak({0, 2}), 4 * states);
  EXPECT_GE(peak({0, 2}) - peak({0}), states);
}

}  // namespace
}  // namespace pando::testing
