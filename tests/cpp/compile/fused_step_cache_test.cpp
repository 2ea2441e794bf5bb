// Steps that are alike share one kernel; steps that differ in anything that counts do not.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <set>

#include "pando/session/session.hpp"
#include "tests/cpp/ir/ir_fixture.hpp"

namespace pando::testing {
namespace {

constexpr std::size_t kElements = 8;

/// Many steps on variables of their own, each with what it must give.
class IndependentSteps {
 public:
  using Values = std::vector<float>;
  using Build = std::function<Tensor*(OpBuilder&, const std::vector<Tensor*>&)>;
  using Expect = std::function<float(const std::vector<Values>&, std::size_t)>;

  /// `build`: the new value of the first of `count` variables.
  void add(int count, const Shape& shape, const Build& build, const Expect& expect) {
    std::vector<Tensor*> inputs;
    std::vector<Values> values;
    for (int i = 0; i < count; ++i) {
      values.emplace_back(kElements);
      for (float& value : values.back()) value = 0.5f + static_cast<float>(random_() % 1000) / 500;
      inputs.push_back(variable(main_, "v", values.back(), shape));
    }
    OpBuilder ops(main_, {});
    Tensor* result = build(ops, inputs);
    if (result != nullptr) ops.op("CopyVarUpdate", {inputs[0], result});
    Values expected(kElements);
    for (std::size_t i = 0; i < kElements; ++i) expected[i] = expect(values, i);
    results_.emplace_back(inputs[0], std::move(expected));
  }

  Program run() {
    Session session(ir_, {{}, {.num_threads = 1}});
    session.attach();
    session.weights_from_host();
    session.run({}, {});
    session.weights_to_host();
    session.detach();
    for (std::size_t s = 0; s < results_.size(); ++s) {
      const auto& [target, expected] = results_[s];
      Values given(kElements);
      std::memcpy(given.data(), target->data->data, kElements * sizeof(float));
      for (std::size_t i = 0; i < kElements; ++i) {
        EXPECT_NEAR(given[i], expected[i], 1e-5f * std::abs(expected[i])) << "step " << s;
      }
    }
    return session.program();
  }

 private:
  Ir ir_;
  Graph& main_ = ir_.main_graph();
  std::minstd_rand random_{1};
  std::vector<std::pair<Tensor*, Values>> results_;
};

std::size_t fused_kernels(const Program& program) {
  return static_cast<std::size_t>(
      std::count_if(program.kernels.begin(), program.kernels.end(),
                    [](const KernelSpec& kernel) { return kernel.kind == "Fused"; }));
}

std::set<std::int32_t> kernels_run(const Program& program) {
  std::set<std::int32_t> targets;
  for (const Function& function : program.functions) {
    for (const Instruction& instruction : function.instructions) {
      if (instruction.kind == Instruction::Kind::Kernel) targets.insert(instruction.target);
    }
  }
  return targets;
}

IndependentSteps::Build power(double exponent) {
  return [exponent](OpBuilder& ops, const std::vector<Tensor*>& in) {
    return ops.make("Pow", {in[0], ops.constant(exponent, DType::Float32)});
  };
}

IndependentSteps::Expect power_of(float exponent) {
  return [exponent](const std::vector<std::vector<float>>& in, std::size_t i) {
    return std::pow(in[0][i], exponent);
  };
}

void add_scaled(IndependentSteps& steps, double scale) {
  steps.add(
      2, {8},
      [scale](OpBuilder& ops, const std::vector<Tensor*>& in) -> Tensor* {
        ops.op("ScaledAddLhsInplace", {in[0], in[1]}, {{"b", scale}});
        return nullptr;
      },
      [scale](const auto& in, std::size_t i) {
        return in[0][i] + static_cast<float>(scale) * in[1][i];
      });
}

TEST(FusedStepCache, EqualStepsRunOneKernel) {
  op_registry();
  IndependentSteps steps;
  for (int i = 0; i < 20; ++i) add_scaled(steps, 0.25);
  const Program program = steps.run();
  EXPECT_EQ(fused_kernels(program), 1u);
  EXPECT_EQ(kernels_run(program).size(), 1u);
}

TEST(FusedStepCache, AttributesAndValuesOfConstantsTellStepsApart) {
  op_registry();
  IndependentSteps steps;
  for (int repeat = 0; repeat < 2; ++repeat) {
    for (const double scale : {0.25, 0.5, -1.0}) add_scaled(steps, scale);
    for (const double exponent : {1.0, 2.0, 3.0, 2.5, -1.0}) {
      steps.add(1, {8}, power(exponent), power_of(static_cast<float>(exponent)));
    }
  }
  EXPECT_EQ(fused_kernels(steps.run()), 8u);
}

TEST(FusedStepCache, ShapesAndOperandsUsedTwiceTellStepsApart) {
  op_registry();
  IndependentSteps steps;
  const auto product = [](int left, int right) -> IndependentSteps::Build {
    return [=](OpBuilder& ops, const std::vector<Tensor*>& in) {
      const auto l = static_cast<std::size_t>(left), r = static_cast<std::size_t>(right);
      return ops.make("Mul", {ops.make("Sub", {in[l], in[r]}), ops.make("Exp", {in[0]})});
    };
  };
  const auto expected = [](int left, int right) -> IndependentSteps::Expect {
    return [=](const auto& in, std::size_t i) {
      const auto l = static_cast<std::size_t>(left), r = static_cast<std::size_t>(right);
      return (in[l][i] - in[r][i]) * std::exp(in[0][i]);
    };
  };
  for (const Shape& shape : {Shape{8}, Shape{2, 4}, Shape{4, 2}}) {
    for (const auto& [left, right] : {std::pair(0, 1), std::pair(1, 0), std::pair(1, 2)}) {
      steps.add(3, shape, product(left, right), expected(left, right));
      steps.add(3, shape, product(left, right), expected(left, right));
    }
  }
  steps.run();
}

}  // namespace
}  // namespace pando::testing
