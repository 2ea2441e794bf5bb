// Gradient rules, expanded and run in double, against central differences.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "pando/base/error.hpp"
#include "tests/cpp/ops/evaluate.hpp"

namespace pando::testing {
namespace {

/// A gradient built beside the forward op, so forward values are at hand.
class SameGraphGradient : public GradientBuilder {
 public:
  SameGraphGradient(Graph& graph, std::vector<Tensor*> output_gradients)
      : GradientBuilder(graph, {}), output_gradients_(std::move(output_gradients)) {}

  Tensor* output_gradient(int index) override {
    return output_gradients_[static_cast<std::size_t>(index)];
  }
  Tensor* forward(Tensor* tensor) override { return tensor; }
  bool wants(int) const override { return true; }
  void set_input_gradient(int index, Tensor* gradient) override { gradients[index] = gradient; }

  std::map<int, Tensor*> gradients;

 private:
  std::vector<Tensor*> output_gradients_;
};

using Data = std::vector<std::vector<double>>;

struct GradientCase {
  std::string kind;
  std::vector<Shape> shapes;
  Attributes attributes = {};
  double low = -2.0, high = 2.0;
  std::vector<int> differentiable = {};  // default: of the record
  bool first_is_bool = false;
};

std::vector<double> random_values(std::mt19937& random, std::int64_t count, double low,
                                  double high) {
  std::uniform_real_distribution<double> draw(low, high);
  std::vector<double> values(static_cast<std::size_t>(count));
  for (double& value : values) value = draw(random);
  return values;
}

/// Sum over all outputs of weight * output.
double weighted_output(const GradientCase& c, const std::vector<TensorInfo>& infos,
                       const Data& data, const Data& weights) {
  const std::vector<Array> outputs = evaluate_all(c.kind, infos, data, c.attributes);
  double sum = 0.0;
  for (std::size_t k = 0; k < weights.size(); ++k) {
    for (std::size_t i = 0; i < weights[k].size(); ++i) sum += weights[k][i] * outputs[k].data[i];
  }
  return sum;
}

void expect_numeric_gradient(const GradientCase& c, const std::vector<TensorInfo>& infos,
                             const Data& data, const Data& weights, int input,
                             const Array& gradient) {
  const auto k = static_cast<std::size_t>(input);
  ASSERT_EQ(gradient.shape, infos[k].shape) << c.kind;
  constexpr double kStep = 1e-5;
  for (std::size_t i = 0; i < data[k].size(); ++i) {
    Data up = data, down = data;
    up[k][i] += kStep;
    down[k][i] -= kStep;
    const double expected =
        (weighted_output(c, infos, up, weights) - weighted_output(c, infos, down, weights)) /
        (2.0 * kStep);
    EXPECT_NEAR(gradient.data[i], expected, 1e-5 * std::max(1.0, std::fabs(expected)))
        << c.kind << " input " << input << " element " << i;
  }
}

void check_gradient(const GradientCase& c) {
  std::mt19937 random(7);
  std::vector<TensorInfo> infos;
  Data data;
  for (const Shape& shape : c.shapes) {
    const bool is_bool = c.first_is_bool && infos.empty();
    infos.push_back(typed(is_bool ? DType::Bool : DType::Float64, shape));
    data.push_back(random_values(random, num_elements(shape), c.low, c.high));
    if (is_bool) {
      for (double& value : data.back()) value = value > 0.0;
    }
  }
  SingleOp single(c.kind, infos, c.attributes);
  Graph& graph = single.ir.main_graph();
  const bool first_output_only = c.kind == "ReduceMedian";
  std::vector<Tensor*> output_gradients;
  Data weights;
  for (const Tensor* output : single.op->outputs()) {
    if (first_output_only && !weights.empty()) {
      output_gradients.push_back(nullptr);
      continue;
    }
    output_gradients.push_back(graph.add_input(graph.unique_tensor_id("g"), output->info));
    weights.push_back(random_values(random, output->info.num_elements(), -1.0, 1.0));
  }
  SameGraphGradient builder(graph, output_gradients);
  single.op->def().gradient(builder, *single.op);
  std::vector<int> differentiable = c.differentiable;
  if (differentiable.empty()) differentiable = single.op->def().differentiable_inputs;
  for (int input : differentiable) {
    ASSERT_TRUE(builder.gradients.contains(input)) << c.kind << " input " << input;
    graph.mark_output(builder.gradients[input]);
  }
  expand(graph);
  Evaluator evaluator;
  for (std::size_t i = 0; i < data.size(); ++i) evaluator.set(single.inputs[i], data[i]);
  for (std::size_t i = 0; i < weights.size(); ++i) evaluator.set(output_gradients[i], weights[i]);
  evaluator.run(graph);
  for (std::size_t i = 0; i < differentiable.size(); ++i) {
    expect_numeric_gradient(c, infos, data, weights, differentiable[i],
                            evaluator.value(graph.outputs()[i]));
  }
}

TEST(Gradient, Unary) {
  for (const char* kind : {"Abs", "Neg", "Sign", "Ceil", "Floor", "Exp", "Sin", "Cos", "Tanh",
                           "Relu", "Gelu", "GeluErf", "Swish", "Sigmoid", "Identity"}) {
    check_gradient({kind, {{2, 3}}});
  }
  for (const char* kind : {"Log", "Sqrt"}) check_gradient({kind, {{2, 3}}, {}, 0.5, 3.0});
  check_gradient({"Clip", {{3, 4}}, {{"min", -1.0}, {"max", 0.5}}});
}

TEST(Gradient, BinaryWithBroadcasting) {
  const std::vector<std::vector<Shape>> shapes = {
      {{2, 3}, {2, 3}}, {{2, 3}, {3}}, {{2, 1}, {4, 1, 3}}, {{}, {2}}};
  for (const auto& pair : shapes) {
    for (const char* kind : {"Add", "Sub", "Mul"}) check_gradient({kind, pair});
    check_gradient({"Div", pair, {}, 0.5, 2.0});
    check_gradient({"Fmod", pair, {}, 0.5, 2.0});
    check_gradient({"Pow", pair, {}, 0.5, 2.0});
    check_gradient({"Max", pair, {}, -2.0, 2.0, {0, 1}});
  }
  check_gradient({"Sum", {{2}, {2}, {2}}, {}, -2.0, 2.0, {0, 1, 2}});
  check_gradient({"Where", {{2, 1}, {3}, {2, 3}}, {}, -2.0, 2.0, {}, true});
}

TEST(Gradient, ShapeOps) {
  check_gradient({"Reshape", {{2, 3}}, {{"shape", Ints{6}}}});
  check_gradient({"Transpose", {{2, 3, 4}}, {{"permutation", Ints{2, 0, 1}}}});
  check_gradient({"Slice",
                  {{5, 7}},
                  {{"starts", Ints{1, 6}}, {"steps", Ints{1, -2}}, {"counts", Ints{3, 3}}}});
  check_gradient({"Slice", {{3}}, {{"starts", Ints{0}}, {"steps", Ints{1}}, {"counts", Ints{3}}}});
  check_gradient({"Slice", {{3}}, {{"starts", Ints{2}}, {"steps", Ints{-1}}, {"counts", Ints{3}}}});
  check_gradient({"Subsample", {{5, 4}}, {{"strides", Ints{2, 3}}}});
  check_gradient({"BroadcastTo", {{3, 1}}, {{"shape", Ints{2, 3, 4}}}});
  check_gradient({"Concat", {{2, 1}, {2, 3}}, {{"axis", std::int64_t{1}}}, -2.0, 2.0, {0, 1}});
  check_gradient({"Concat", {{2, 3}}, {{"axis", std::int64_t{1}}}});
  check_gradient({"ConcatInplace", {{2}, {1}}, {{"axis", std::int64_t{0}}}, -2.0, 2.0, {0, 1}});
  check_gradient({"Split", {{2, 5}}, {{"axis", std::int64_t{1}}, {"sizes", Ints{2, 3}}}});
}

TEST(Gradient, Reductions) {
  const std::vector<Ints> axes = {{1}, {0, 2}, {0, 1, 2}, {}};
  for (const Ints& reduced : axes) {
    for (bool keepdims : {false, true}) {
      const Attributes attributes = {{"axes", reduced}, {"keepdims", keepdims}};
      for (const char* kind :
           {"ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1",
            "ReduceL2", "ReduceSumSquare", "ReduceLogSumExp", "ReduceMedian"}) {
        check_gradient({kind, {{2, 3, 2}}, attributes});
      }
      check_gradient({"ReduceLogSum", {{2, 3, 2}}, attributes, 0.5, 2.0});
    }
  }
}

TEST(Gradient, MatMul) {
  const std::vector<std::vector<Shape>> shapes = {{{2, 3}, {3, 4}},
                                                  {{3}, {3}},
                                                  {{3}, {3, 4}},
                                                  {{2, 3}, {3}},
                                                  {{5, 2, 3}, {3, 4}},
                                                  {{5, 2, 3}, {3}},
                                                  {{3}, {5, 3, 2}},
                                                  {{2, 3}, {5, 3, 2}},
                                                  {{5, 2, 3}, {5, 3, 2}},
                                                  {{5, 2, 3}, {1, 3, 2}},
                                                  {{2, 1, 2, 3}, {4, 3, 2}}};
  for (const auto& pair : shapes) check_gradient({"MatMul", pair});
}

TEST(Gradient, TiesGetTheFullGradient) {
  const Array maximum =
      evaluate("ReduceMaxGrad", {f32({}), f32({3}), f32({})}, {{2.0}, {1.0, 4.0, 4.0}, {4.0}},
               {{"axes", Ints{0}}, {"shape", Ints{3}}});
  EXPECT_EQ(maximum.data, (std::vector<double>{0, 2, 2}));
  const Array argument = evaluate("MaxArgGrad", {f32({2}), f32({2}), f32({2})},
                                  {{3, 3}, {5, 1}, {5, 4}}, {{"shape", Ints{2}}});
  EXPECT_EQ(argument.data, (std::vector<double>{3, 0}));
}

TEST(Gradient, ProductWithZeros) {
  const Array gradient = evaluate("ReduceProdGrad", {f32({}), f32({4})}, {{2.0}, {3, 0, 5, 7}},
                                  {{"axes", Ints{0}}, {"shape", Ints{4}}});
  EXPECT_EQ(gradient.data, (std::vector<double>{0, 210, 0, 0}));
}

TEST(Gradient, PowerAtZero) {
  const std::vector<TensorInfo> three = {f32({3}), f32({3}), f32({3})};
  const Array base =
      evaluate("PowArg0Grad", three, {{1, 1, 1}, {0, 2, 3}, {0, 0, 2}}, {{"shape", Ints{3}}});
  EXPECT_EQ(base.data, (std::vector<double>{0, 0, 6}));
  const std::vector<TensorInfo> four(4, f32({2}));
  const Array exponent =
      evaluate("PowArg1Grad", four, {{1, 1}, {0, 2}, {2, 1}, {0, 2}}, {{"shape", Ints{2}}});
  EXPECT_EQ(exponent.data[0], 0.0);
  EXPECT_NEAR(exponent.data[1], 2.0 * std::log(2.0), 1e-12);
}

TEST(Gradient, ConstantExponent) {
  for (double e : {0.0, 2.0, 2.5}) {
    Ir ir;
    Graph& graph = ir.main_graph();
    op_registry();
    OpBuilder builder(graph, {});
    Tensor* g = graph.add_input("g", f32({}));
    Tensor* x = graph.add_input("x", f32({}));
    Tensor* exponent = builder.constant(e, DType::Float32);
    graph.mark_output(builder.make("PowArg0Grad", {g, x, exponent}, {{"shape", Ints{}}}));
    expand(graph);
    Evaluator evaluator;
    evaluator.set(g, {3.0});
    evaluator.set(x, {1.5});
    evaluator.run(graph);
    EXPECT_NEAR(evaluator.value(graph.outputs()[0]).data[0],
                e == 0.0 ? 0.0 : 3.0 * e * std::pow(1.5, e - 1.0), 1e-12);
  }
}

/// The kinds that the gradient of an op is made of, as schedules print them.
std::vector<std::string> gradient_kinds(std::string_view kind,
                                        const std::vector<TensorInfo>& infos) {
  SingleOp single(kind, infos);
  Graph& graph = single.ir.main_graph();
  SameGraphGradient builder(graph, {graph.add_input("g", single.info())});
  single.op->def().gradient(builder, *single.op);
  std::vector<std::string> kinds;
  for (std::size_t i = 1; i < graph.ops().size(); ++i) kinds.push_back(graph.ops()[i]->kind_name());
  return kinds;
}

TEST(Gradient, PrintedNames) {
  using Names = std::vector<std::string>;
  EXPECT_EQ(gradient_kinds("Add", {f32({2}), f32({})}), (Names{"AddArg0Grad", "AddArg1Grad"}));
  EXPECT_EQ(gradient_kinds("Mul", {f32({2}), f32({})}), (Names{"MulArg0Grad", "MulArg1Grad"}));
  EXPECT_EQ(gradient_kinds("MatMul", {f32({2, 3}), f32({3, 2})}),
            (Names{"MatMulLhsGrad", "MatMulRhsGrad"}));
  EXPECT_EQ(gradient_kinds("Gelu", {f32({2})}), Names{"GeluGrad"});
  EXPECT_EQ(gradient_kinds("Floor", {f32({2})}), Names{"UnaryZeroGrad"});
}

TEST(Gradient, ScaleOfAHalfTensorIsMadeInFloat32) {
  SingleOp single("Mul", {typed(DType::Float16, {4}), f32({})});
  Graph& graph = single.ir.main_graph();
  SameGraphGradient builder(graph, {graph.add_input("g", single.info())});
  single.op->def().gradient(builder, *single.op);
  EXPECT_EQ(builder.gradients[0]->info, typed(DType::Float16, {4}));
  EXPECT_EQ(builder.gradients[1]->info, f32({}));
  graph.mark_output(builder.gradients[1]);
  expand(graph);
  EXPECT_EQ(graph.outputs()[0]->info, f32({}));
}

TEST(Gradient, CastsOfIntegersStopIt) {
  for (const auto& [source, reaches] :
       {std::pair{DType::Float16, true}, {DType::Float32, true}, {DType::Int32, false}}) {
    SingleOp single("Cast", {typed(source, {2})}, {{"dtype", DType::Float32}});
    Graph& graph = single.ir.main_graph();
    SameGraphGradient builder(graph, {graph.add_input("g", single.info())});
    single.op->def().gradient(builder, *single.op);
    EXPECT_EQ(!builder.gradients.empty(), reaches);
    if (reaches) {
      EXPECT_EQ(builder.gradients[0]->dtype(), source);
    }
  }
}

}  // namespace
}  // namespace pando::testing
