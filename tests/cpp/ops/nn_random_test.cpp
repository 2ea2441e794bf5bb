// Random ops: reproducible, same mask in the gradient, right distributions.
#include <algorithm>
#include <numeric>

#include "tests/cpp/ops/nn_fixture.hpp"

namespace pando::nn_test {
namespace {

class RandomOps : public Fixture {
 protected:
  Tensor* seed(double a = 42, double b = 1984) { return input({2}, DType::UInt32, {a, b}); }

  Values uniform(double low, double high, DType dtype, std::int64_t count) {
    return run(op("RandomUniform", {seed()},
                  {{"shape", Ints{count}}, {"dtype", dtype}, {"low", low}, {"high", high}})
                   .output(0));
  }
};

double mean_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

TEST_F(RandomOps, DropoutZeroesAFractionAndScalesTheRest) {
  constexpr std::int64_t n = 20000;
  Tensor* t = input({n}, DType::Float32, Values(n, 3.0));
  const Values result = run(op("Dropout", {t, seed()}, {{"p", 0.25}}).output(0));
  const auto dropped = std::count(result.begin(), result.end(), 0.0);
  EXPECT_NEAR(static_cast<double>(dropped) / n, 0.25, 5 * std::sqrt(0.25 * 0.75 / n));
  for (double value : result) ASSERT_TRUE(value == 0.0 || value == 4.0) << value;
}

TEST_F(RandomOps, DropoutGradientHasTheSameMask) {
  constexpr std::int64_t n = 5000;
  Tensor* t = input({n}, DType::Float32, Values(n, 1.0));
  Op& forward = op("Dropout", {t, seed()}, {{"p", 0.5}});
  OneOpGradient gradient(forward, {input({n}, DType::Float32, Values(n, 1.0))});
  Tensor* g = gradient.gradients.at(0);
  EXPECT_EQ(g->producer()->kind_name(), "Dropout");
  ir_.main_graph().mark_output(g);
  const Values mask = run(forward.output(0));
  EXPECT_EQ(value(ir_.main_graph().outputs().front()), mask);
}

TEST_F(RandomOps, SeedsAndKindsGiveDifferentMasks) {
  constexpr std::int64_t n = 256;
  const auto mask = [&](const std::string& kind, double b, Attributes attributes) {
    Tensor* t = input({n}, DType::Float32, Values(n, 1.0));
    return run(op(kind, {t, seed(42, b)}, std::move(attributes)).output(0));
  };
  const Values first = mask("Dropout", 0, {{"p", 0.5}});
  EXPECT_EQ(first, mask("Dropout", 0, {{"p", 0.5}}));
  EXPECT_NE(first, mask("Dropout", 1, {{"p", 0.5}}));
  EXPECT_NE(first, mask("ShapedDropout", 0, {{"shape", Ints{n}}, {"ratio", 0.5}}));
}

TEST_F(RandomOps, UniformStaysInsideTheHalfOpenInterval) {
  constexpr std::int64_t n = 20000;
  const Values values = uniform(-1.0, 3.0, DType::Float32, n);
  EXPECT_GE(*std::min_element(values.begin(), values.end()), -1.0);
  EXPECT_LT(*std::max_element(values.begin(), values.end()), 3.0);
  EXPECT_NEAR(mean_of(values), 1.0, 5 * 4 / std::sqrt(12.0 * n));
  const Values halves = uniform(0.0, 1.0, DType::Float16, n);
  EXPECT_LT(*std::max_element(halves.begin(), halves.end()), 1.0);
  EXPECT_GT(*std::max_element(halves.begin(), halves.end()), 0.999);
}

TEST_F(RandomOps, NormalHasItsMoments) {
  constexpr std::int64_t n = 20000;
  const Values values =
      run(op("RandomNormal", {seed()},
             {{"shape", Ints{n}}, {"dtype", DType::Float32}, {"mean", 1.0}, {"std", 2.0}})
              .output(0));
  double squares = 0.0, fourth = 0.0;
  for (double value : values) {
    const double z = (value - 1.0) / 2.0;
    squares += z * z / n;
    fourth += z * z * z * z / n;
  }
  EXPECT_NEAR(mean_of(values), 1.0, 5 * 2.0 / std::sqrt(n));
  EXPECT_NEAR(squares, 1.0, 5 * std::sqrt(2.0 / n));
  EXPECT_NEAR(fourth, 3.0, 5 * std::sqrt(96.0 / n));
}

TEST_F(RandomOps, ModifiedSeedKeepsTheFirstWord) {
  const auto child = [&](double modifier) {
    return run(
        op("ModifyRandomSeed", {seed(7, 9), input({}, DType::UInt32, {modifier})}).output(0));
  };
  const Values first = child(0);
  EXPECT_EQ(first[0], 7.0);
  EXPECT_EQ(first[1], philox_word(7, 9, 0, static_cast<std::uint32_t>(PhiloxStream::ModifySeed)));
  EXPECT_NE(first[1], child(1)[1]);
  EXPECT_EQ(child(1)[1],
            run(op("ModifyRandomSeed", {seed(7, 10), input({}, DType::UInt32, {0})}).output(0))[1]);
}

TEST_F(RandomOps, WrongSeedsAndProbabilitiesAreErrors) {
  Tensor* t = input({4});
  EXPECT_THROW(op("Dropout", {t, input({3}, DType::UInt32)}, {{"p", 0.5}}), Error);
  EXPECT_THROW(op("Dropout", {t, input({2}, DType::Int32)}, {{"p", 0.5}}), Error);
  EXPECT_THROW(op("Dropout", {t, seed()}, {{"p", 1.0}}), ValueError);
  EXPECT_THROW(op("ShapedDropout", {t, seed()}, {{"shape", Ints{3}}, {"ratio", 0.5}}), Error);
}

}  // namespace
}  // namespace pando::nn_test
