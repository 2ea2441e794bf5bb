// Optimizer ops: numbers that a tutorial of popxl prints, and formulas in double precision.
#include "tests/cpp/ops/nn_fixture.hpp"

namespace pando::nn_test {
namespace {

class Optimizer : public Fixture {
 protected:
  Tensor* accumulate(const std::string& type, Tensor* t, Tensor* x, double factor) {
    return op("Accumulate", {t, x}, {{"type", type}, {"factor", factor}}).output(0);
  }
};

TEST_F(Optimizer, MovingAverageInHalfMatchesThePrintedNumber) {
  Tensor* t = input({2, 2}, DType::Float16, {0, 0, 0, 0});
  Tensor* x = input({2, 2}, DType::Float32, Values(4, 0.1f));
  const Values result = run(accumulate("MovingAverage", t, x, 0.9));
  EXPECT_EQ(result[0], half_to_float(float_to_half(0.009995f)));
  EXPECT_EQ(value(t), result);
}

TEST_F(Optimizer, MovingAverageSquareMatchesThePrintedNumber) {
  Tensor* t = input({1}, DType::Float32, {0});
  Tensor* x = input({1}, DType::Float32, {0.1f});
  EXPECT_EQ(static_cast<float>(run(accumulate("MovingAverageSquare", t, x, 0.999))[0]),
            9.9998715e-06f);
}

TEST_F(Optimizer, PlainAdditionsRoundOnce) {
  // In float16 2048 + 1 is 2048, and 2048 + 3 * 0.6 rounded once is 2050.
  Tensor* t = input({1}, DType::Float16, {2048});
  Tensor* x = input({1}, DType::Float32, {3});
  EXPECT_EQ(run(accumulate("DampenedAdd", t, x, 0.6))[0], 2050.0);
}

TEST_F(Optimizer, OtherAccumulationTypes) {
  const auto one = [&](const std::string& type, double t, double x, double f) {
    Tensor* target = input({1}, DType::Float32, {t});
    return run(accumulate(type, target, input({1}, DType::Float32, {x}), f))[0];
  };
  EXPECT_DOUBLE_EQ(one("DampenedAddSquare", 1, 3, 0.5), 5.5);
  EXPECT_DOUBLE_EQ(one("DecayAdd", 2, 3, 0.5), 4);
  EXPECT_DOUBLE_EQ(one("DecayAddSquare", 2, 3, 0.5), 10);
  EXPECT_DOUBLE_EQ(one("Infinity", 2, -3, 0.5), 3);
  EXPECT_DOUBLE_EQ(one("Infinity", 8, -3, 0.5), 4);
  EXPECT_DOUBLE_EQ(one("MovingAverage", 2, 4, 0.75), 2.5);
}

TEST_F(Optimizer, MeanUsesTheStepInput) {
  Tensor* t = input({2}, DType::Float32, {2, 4});
  Tensor* step = input({}, DType::Float32, {3});
  Tensor* mean = op("Accumulate", {t, input({2}, DType::Float32, {6, 0}), step},
                    {{"type", std::string("Mean")}})
                     .output(0);
  EXPECT_EQ(run(mean), (Values{3, 3}));
}

TEST_F(Optimizer, ConstantFactorZeroIsRefusedWhenLowered) {
  Tensor* t = input({1}, DType::Float32, {0});
  Tensor* result = accumulate("DampenedAdd", t, input({1}, DType::Float32, {1}), 0.0);
  EXPECT_THROW(run(result), LoweringError);
}

TEST_F(Optimizer, ScalingByZeroClearsNan) {
  Tensor* t = input({2}, DType::Float32, {std::nan(""), 5});
  EXPECT_EQ(run(op("AccumulatorScale", {t}, {{"factor", 0.0}}).output(0)), (Values{0, 0}));
}

TEST_F(Optimizer, ScaledAddTakesConstantsAndTensors) {
  Tensor* x = input({2}, DType::Float16, {1, 2});
  Tensor* y = input({2}, DType::Float32, {10, 20});
  Tensor* b = input({}, DType::Float32, {0.5});
  Op& made = op("ScaledAddLhsInplace", {x, y, nullptr, b}, {{"a", 2.0}});
  EXPECT_EQ(made.output(0)->dtype(), DType::Float16);
  EXPECT_EQ(run(made.output(0)), (Values{7, 14}));
  EXPECT_EQ(value(x), (Values{7, 14}));
}

struct AdamCase {
  double m = 0.3, v = 0.04, w = 2.0, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-5, decay = 0.1;
};

TEST_F(Optimizer, AdamUpdaterCorrectsBiasAndCountsTheStep) {
  const AdamCase c;
  Tensor* step = input({}, DType::Float32, {2});
  Op& made = op("AdamUpdater",
                {input({1}, DType::Float32, {c.w}), input({1}, DType::Float32, {c.m}),
                 input({1}, DType::Float32, {c.v}), step},
                {{"mode", std::string("Adam")},
                 {"weight_decay", c.decay},
                 {"beta1", c.beta1},
                 {"beta2", c.beta2},
                 {"epsilon", c.epsilon}});
  EXPECT_EQ(made.modified_inputs(), InputSet{3});
  const double result = run(made.output(0))[0];
  const double mc = c.m / (1 - std::pow(static_cast<float>(c.beta1), 3));
  const double vc = c.v / (1 - std::pow(static_cast<float>(c.beta2), 3));
  EXPECT_NEAR(result, mc / (std::sqrt(vc) + c.epsilon) + c.decay * c.w, 1e-6);
  EXPECT_EQ(value(step), Values{3});
}

TEST_F(Optimizer, AdamFirstStepOfAConstantGradientIsOne) {
  // After one moving average of gradient 0.1 the corrected quotient is g / |g|.
  Op& made =
      op("AdamUpdater",
         {nullptr, input({1}, DType::Float32, {(1.0f - 0.9f) * 0.1f}),
          input({1}, DType::Float32, {9.9998715e-06f}), input({}, DType::Float32, {0})},
         {{"mode", std::string("Adam")}, {"beta1", 0.9}, {"beta2", 0.999}, {"epsilon", 0.0}});
  EXPECT_NEAR(run(made.output(0))[0], 1.0, 3e-7);
}

TEST_F(Optimizer, UpdaterDtypeFollowsTheWeightElseTheFirstMoment) {
  Tensor* m = input({4}, DType::Float16);
  Tensor* v = input({4}, DType::Float32);
  const Attributes adam{{"mode", std::string("Adam")}};
  EXPECT_EQ(op("AdamUpdater", {nullptr, m, v}, adam).output(0)->dtype(), DType::Float16);
  EXPECT_EQ(op("AdamUpdater", {input({4}), m, v}, adam).output(0)->dtype(), DType::Float32);
}

TEST_F(Optimizer, UpdaterErrorsAreThoseOfTheSpecification) {
  Tensor* m = input({4});
  Tensor* v = input({4});
  Tensor* step = input({});
  const auto text = [&](const std::vector<Tensor*>& inputs, Attributes attributes) {
    try {
      op("AdamUpdater", inputs, std::move(attributes));
    } catch (const ValueError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(text({nullptr, m, v, step}, {{"mode", std::string("Adam")}, {"beta1", 0.9}}),
            "Bias correction requires both beta1 and beta2 to not be None.");
  EXPECT_EQ(text({nullptr, m, v}, {{"mode", std::string("AdaMax")}}),
            "AdaMax requires time_step to not be None.");
  EXPECT_EQ(text({nullptr, m, v}, {{"mode", std::string("Adam")}, {"weight_decay", 0.1}}),
            "Weight decay requires weight to not be None.");
}

TEST_F(Optimizer, AdamVarUpdateUsesTheTrustRatio) {
  const auto updated = [&](double r1, double r2, double limit) {
    Tensor* t = input({1}, DType::Float32, {10});
    Tensor* x = input({1}, DType::Float32, {2});
    return run(op("AdamVarUpdate",
                  {t, x, input({}, DType::Float32, {r1}), input({}, DType::Float32, {r2})},
                  {{"learning_rate", 0.5}, {"max_weight_norm", limit}})
                   .output(0))[0];
  };
  EXPECT_DOUBLE_EQ(updated(16, 4, 100), 10 - 0.5 * 2 * 2);
  EXPECT_DOUBLE_EQ(updated(16, 4, 3), 10 - 0.5 * 1.5 * 2);
  EXPECT_DOUBLE_EQ(updated(0, 4, 3), 9);
  EXPECT_DOUBLE_EQ(updated(16, 0, 3), 9);
}

}  // namespace
}  // namespace pando::nn_test
