// Per-element bodies against the C++ library.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/cpp/ops/evaluate.hpp"

namespace pando::testing {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
const double kNan = std::numeric_limits<double>::quiet_NaN();

/// The op on single elements.
double apply(std::string_view kind, const std::vector<double>& elements, Attributes attributes = {},
             DType dtype = DType::Float64) {
  std::vector<TensorInfo> infos(elements.size(), typed(dtype, {1}));
  std::vector<std::vector<double>> data;
  for (double element : elements) data.push_back({element});
  return evaluate(kind, infos, data, std::move(attributes)).data[0];
}

double apply_int(std::string_view kind, const std::vector<double>& elements,
                 Attributes attributes = {}) {
  return apply(kind, elements, std::move(attributes), DType::Int32);
}

double gelu(double x) {
  return 0.5 * x * (1.0 + std::tanh(std::sqrt(2.0 / M_PI) * (x + 0.044715 * x * x * x)));
}

TEST(Unary, MatchesTheLibrary) {
  struct Case {
    const char* kind;
    std::function<double(double)> expected;
  };
  const std::vector<Case> cases = {
      {"Abs", [](double x) { return std::fabs(x); }},
      {"Neg", [](double x) { return -x; }},
      {"Sign", [](double x) { return double((x > 0) - (x < 0)); }},
      {"Ceil", [](double x) { return std::ceil(x); }},
      {"Floor", [](double x) { return std::floor(x); }},
      {"Exp", [](double x) { return std::exp(x); }},
      {"ExpInplace", [](double x) { return std::exp(x); }},
      {"Sin", [](double x) { return std::sin(x); }},
      {"Cos", [](double x) { return std::cos(x); }},
      {"Tanh", [](double x) { return std::tanh(x); }},
      {"Sigmoid", [](double x) { return 1.0 / (1.0 + std::exp(-x)); }},
      {"Relu", [](double x) { return std::max(x, 0.0); }},
      {"ReluInplace", [](double x) { return std::max(x, 0.0); }},
      {"Gelu", gelu},
      {"GeluInplace", gelu},
      {"GeluErf", [](double x) { return 0.5 * x * std::erfc(-x / std::sqrt(2.0)); }},
      {"Swish", [](double x) { return x / (1.0 + std::exp(-x)); }},
      {"Identity", [](double x) { return x; }},
      {"Detach", [](double x) { return x; }},
  };
  for (const Case& c : cases) {
    for (double x : {-5.0, -1.5, -0.3, 0.0, 0.7, 2.0, 6.0}) {
      EXPECT_NEAR(apply(c.kind, {x}), c.expected(x), 1e-12) << c.kind << " of " << x;
    }
  }
  for (double x : {0.1, 1.0, 9.0}) {
    EXPECT_DOUBLE_EQ(apply("Log", {x}), std::log(x));
    EXPECT_DOUBLE_EQ(apply("Sqrt", {x}), std::sqrt(x));
  }
}

TEST(Unary, IntegersRoundToThemselves) {
  EXPECT_EQ(apply_int("Floor", {-3}), -3);
  EXPECT_EQ(apply_int("Ceil", {7}), 7);
  EXPECT_EQ(apply_int("Abs", {-7}), 7);
  EXPECT_EQ(apply_int("IsNaN", {5}), 0);
}

TEST(Unary, NotANumberAndInfinity) {
  EXPECT_EQ(apply("IsNaN", {kNan}), 1);
  EXPECT_EQ(apply("IsNaN", {kInf}), 0);
  EXPECT_EQ(apply("IsInf", {-kInf}), 1);
  EXPECT_EQ(apply("IsInf", {kNan}), 0);
  EXPECT_TRUE(std::isnan(apply("Relu", {kNan})));
  EXPECT_TRUE(std::isnan(apply("Sign", {kNan})));
}

TEST(Clip, LimitsAndPropagatesNan) {
  const Attributes limits = {{"min", -1.0}, {"max", 2.0}};
  EXPECT_EQ(apply("Clip", {-3.0}, limits), -1.0);
  EXPECT_EQ(apply("Clip", {0.5}, limits), 0.5);
  EXPECT_EQ(apply("Clip", {5.0}, limits), 2.0);
  EXPECT_TRUE(std::isnan(apply("Clip", {kNan}, limits)));
  EXPECT_EQ(apply_int("Clip", {100}, {{"min", -kInf}, {"max", 7.9}}), 7);
}

TEST(Clip, HalfLimitsAreClampedAndRounded) {
  const Attributes open = {{"min", -kInf}, {"max", kInf}};
  EXPECT_EQ(apply("Clip", {kInf}, open, DType::Float16), 65504.0);
  EXPECT_EQ(apply("Clip", {kInf}, open, DType::Float32), kInf);
  EXPECT_EQ(apply("Clip", {5.0}, {{"min", 0.0}, {"max", 0.1}}, DType::Float16),
            double(_Float16(0.1)));
}

TEST(Clip, GradientIsZeroOnTheLimits) {
  const Attributes limits = {{"min", -1.0}, {"max", 2.0}};
  EXPECT_EQ(apply("ClipGrad", {3.0, -1.0}, limits), 0.0);
  EXPECT_EQ(apply("ClipGrad", {3.0, 2.0}, limits), 0.0);
  EXPECT_EQ(apply("ClipGrad", {3.0, 1.9}, limits), 3.0);
}

TEST(IncrementMod, KeepsTheSignOfTheDividend) {
  const Attributes attributes = {{"increment", 2.0}, {"modulus", 3.0}};
  EXPECT_EQ(apply("IncrementMod", {2.0}, attributes, DType::Float32), 1.0);
  EXPECT_EQ(apply("IncrementMod", {-9.0}, attributes, DType::Float32), -1.0);
  EXPECT_EQ(apply_int("IncrementModInplace", {1}, attributes), 0.0);
}

TEST(Binary, Arithmetic) {
  EXPECT_EQ(apply("Add", {2.5, 4.0}), 6.5);
  EXPECT_EQ(apply("Sub", {2.5, 4.0}), -1.5);
  EXPECT_EQ(apply("Mul", {2.5, 4.0}), 10.0);
  EXPECT_EQ(apply("Div", {5.0, 2.0}), 2.5);
  EXPECT_EQ(apply("Fmod", {-7.0, 3.0}), -1.0);
  EXPECT_EQ(apply("Fmod", {7.0, -3.0}), 1.0);
  EXPECT_EQ(apply("Pow", {2.0, 10.0}), 1024.0);
  EXPECT_EQ(apply("AddLhsInplace", {1.0, 2.0}), 3.0);
  EXPECT_EQ(apply("Max", {1.0, 3.0, 2.0}), 3.0);
  EXPECT_EQ(apply("Max", {4.0}), 4.0);
  EXPECT_EQ(apply("Sum", {1.0, 3.0, 2.0}), 6.0);
}

TEST(Binary, IntegerDivisionTruncates) {
  EXPECT_EQ(apply_int("Div", {-7, 2}), -3);
  EXPECT_EQ(apply_int("Div", {7, 0}), 0);
  EXPECT_EQ(apply_int("Fmod", {-7, 3}), -1);
  EXPECT_EQ(apply_int("Pow", {-3, 3}), -27);
}

TEST(Binary, Broadcasts) {
  const Array sum = evaluate("Add", {f32({2, 1}), f32({3})}, {{10, 20}, {1, 2, 3}});
  EXPECT_EQ(sum.shape, (Shape{2, 3}));
  EXPECT_EQ(sum.data, (std::vector<double>{11, 12, 13, 21, 22, 23}));
}

TEST(Binary, ConstantExponentsGiveThePower) {
  for (double exponent : {1.0, 2.0, 3.0, -1.0, 0.5, 2.5}) {
    Ir ir;
    Graph& graph = ir.main_graph();
    Tensor* x = graph.add_input("x", f32({}));
    OpBuilder builder(graph, {});
    op_registry();
    Tensor* y = builder.make("Pow", {x, builder.constant(exponent, DType::Float32)});
    Evaluator evaluator;
    evaluator.set(x, {1.7});
    evaluator.run(graph);
    EXPECT_DOUBLE_EQ(evaluator.value(y).data[0], std::pow(1.7, exponent));
  }
}

TEST(Compare, TruthValues) {
  EXPECT_EQ(apply("Equal", {2.0, 2.0}), 1);
  EXPECT_EQ(apply("Equal", {kNan, kNan}), 0);
  EXPECT_EQ(apply("Greater", {3.0, 2.0}), 1);
  EXPECT_EQ(apply("Greater", {2.0, 2.0}), 0);
  const DType boolean = DType::Bool;
  EXPECT_EQ(apply("And", {1, 0}, {}, boolean), 0);
  EXPECT_EQ(apply("Or", {1, 0}, {}, boolean), 1);
  EXPECT_EQ(apply("Not", {1}, {}, boolean), 0);
}

TEST(Compare, WhereBroadcastsAllThree) {
  const Array result =
      evaluate("Where", {typed(DType::Bool, {2, 1}), f32({2}), f32({})}, {{1, 0}, {5, 6}, {9}});
  EXPECT_EQ(result.shape, (Shape{2, 2}));
  EXPECT_EQ(result.data, (std::vector<double>{5, 6, 9, 9}));
}

double cast(double value, DType from, DType to) {
  return evaluate("Cast", {typed(from, {1})}, {{value}}, {{"dtype", to}}).data[0];
}

TEST(Cast, FollowsTheTarget) {
  EXPECT_EQ(cast(-2.7, DType::Float32, DType::Int32), -2);
  EXPECT_EQ(cast(0.5, DType::Float32, DType::Bool), 1);
  EXPECT_EQ(cast(0.0, DType::Float32, DType::Bool), 0);
  EXPECT_EQ(cast(-3, DType::Int32, DType::Bool), 1);
  EXPECT_EQ(cast(300, DType::Int32, DType::UInt8), 44);
  EXPECT_EQ(cast(0.1, DType::Float32, DType::Float16), double(_Float16(0.1)));
  EXPECT_EQ(cast(1, DType::Bool, DType::Float32), 1.0);
}

TEST(Cast, ScalesByExactPowersOfTwo) {
  for (double exponent : {-32.0, -5.0, 0.0, 1.0, 7.0, 31.0}) {
    const Array result = evaluate("Pow2Scale", {f32({1}), typed(DType::Int32, {})},
                                  {{1.25}, {exponent}}, {{"dtype", DType::Float32}});
    EXPECT_EQ(result.data[0], std::ldexp(1.25, int(exponent)));
  }
}

}  // namespace
}  // namespace pando::testing
