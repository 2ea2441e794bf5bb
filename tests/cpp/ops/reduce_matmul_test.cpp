// Expanded reductions and matrix products against direct loops.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "tests/cpp/ops/evaluate.hpp"

namespace pando::testing {
namespace {

std::vector<double> counting(const Shape& shape) {
  std::vector<double> values(static_cast<std::size_t>(num_elements(shape)));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = std::sin(1.0 + double(i));
  return values;
}

TEST(Reduce, CompositesOverTheMiddleAxis) {
  const Shape shape = {2, 3, 2};
  const std::vector<double> x = counting(shape);
  struct Case {
    const char* kind;
    std::function<double(const std::vector<double>&)> expected;
  };
  const auto sum = [](const std::vector<double>& v, const std::function<double(double)>& f) {
    return std::accumulate(v.begin(), v.end(), 0.0,
                           [&](double total, double e) { return total + f(e); });
  };
  using Vector = std::vector<double>;
  const auto same = [](double e) { return e; };
  const auto magnitude = [](double e) { return std::fabs(e); };
  const auto squared = [](double e) { return e * e; };
  const auto exponential = [](double e) { return std::exp(e); };
  const std::vector<Case> cases = {
      {"ReduceSum", [&](const Vector& v) { return sum(v, same); }},
      {"ReduceMean", [&](const Vector& v) { return sum(v, same) / 3.0; }},
      {"ReduceL1", [&](const Vector& v) { return sum(v, magnitude); }},
      {"ReduceL2", [&](const Vector& v) { return std::sqrt(sum(v, squared)); }},
      {"ReduceSumSquare", [&](const Vector& v) { return sum(v, squared); }},
      {"ReduceLogSumExp", [&](const Vector& v) { return std::log(sum(v, exponential)); }},
      {"ReduceProd", [&](const Vector& v) { return v[0] * v[1] * v[2]; }},
      {"ReduceMax",
       [&](const Vector& v) {
         return std::max({v[0], v[1], v[2]});
       }},
      {"ReduceMin",
       [&](const Vector& v) {
         return std::min({v[0], v[1], v[2]});
       }},
  };
  for (const Case& c : cases) {
    for (bool keepdims : {false, true}) {
      const Array result = evaluate(c.kind, {typed(DType::Float64, shape)}, {x},
                                    {{"axes", Ints{1}}, {"keepdims", keepdims}});
      EXPECT_EQ(result.shape, keepdims ? (Shape{2, 1, 2}) : (Shape{2, 2}));
      for (std::size_t i = 0; i < 2; ++i) {
        for (std::size_t k = 0; k < 2; ++k) {
          const Vector group = {x[6 * i + k], x[6 * i + 2 + k], x[6 * i + 4 + k]};
          EXPECT_NEAR(result.data[2 * i + k], c.expected(group), 1e-12) << c.kind;
        }
      }
    }
  }
}

TEST(Reduce, LogSumExpDoesNotOverflow) {
  const Array result = evaluate("ReduceLogSumExp", {typed(DType::Float64, {2})}, {{1000, 1000}},
                                {{"axes", Ints{0}}, {"keepdims", false}});
  EXPECT_NEAR(result.data[0], 1000 + std::log(2.0), 1e-9);
}

TEST(Reduce, NoAxesKeepTheValue) {
  const Array result =
      evaluate("ReduceSum", {f32({2})}, {{3, 4}}, {{"axes", Ints{}}, {"keepdims", false}});
  EXPECT_EQ(result.data, (std::vector<double>{3, 4}));
}

Shape with_rank(Shape shape, std::size_t rank) {
  shape.insert(shape.begin(), rank - shape.size(), 1);
  return shape;
}

/// NumPy's definition: vectors become matrices, batches broadcast by index.
double product_element(const Array& lhs, const Array& rhs, const Shape& index, std::int64_t inner) {
  const auto element = [&](const Array& array, Shape at) {
    const Shape shape = with_rank(array.shape, at.size());
    for (std::size_t d = 0; d < at.size(); ++d) {
      if (shape[d] == 1) at[d] = 0;
    }
    return array.data[static_cast<std::size_t>(offset_of(View::contiguous(shape), at))];
  };
  double sum = 0.0;
  for (std::int64_t k = 0; k < inner; ++k) {
    Shape left = index, right = index;
    left[index.size() - 1] = k;
    right[index.size() - 2] = k;
    sum += element(lhs, left) * element(rhs, right);
  }
  return sum;
}

TEST(MatMul, MatchesTheDefinition) {
  const std::vector<std::pair<Shape, Shape>> cases = {
      {{2, 3}, {3, 4}},       {{5, 2, 3}, {3, 4}},          {{2, 3}, {5, 3, 4}},
      {{5, 2, 3}, {5, 3, 4}}, {{5, 1, 2, 3}, {7, 3, 4}},    {{2, 1, 2, 3}, {2, 2, 3, 1}},
      {{4, 2, 3}, {1, 3, 2}}, {{1, 2, 3}, {1, 1, 1, 3, 2}}, {{2, 1}, {1, 2}}};
  for (const auto& [lhs_shape, rhs_shape] : cases) {
    const Array lhs{lhs_shape, counting(lhs_shape)}, rhs{rhs_shape, counting(rhs_shape)};
    const Array result = evaluate("MatMul", {f32(lhs_shape), f32(rhs_shape)}, {lhs.data, rhs.data});
    std::size_t i = 0;
    for_each_index(result.shape, [&](const Shape& index) {
      EXPECT_NEAR(result.data[i++], product_element(lhs, rhs, index, lhs_shape.back()), 1e-12)
          << shape_text(lhs_shape) << " @ " << shape_text(rhs_shape);
    });
  }
}

TEST(MatMul, Vectors) {
  const std::vector<double> v = {1, 2, 3}, w = {4, 5, 6}, m = {1, 0, 0, 1, 2, 2};
  EXPECT_EQ(evaluate("MatMul", {f32({3}), f32({3})}, {v, w}).data, std::vector<double>{32});
  EXPECT_EQ(evaluate("MatMul", {f32({3}), f32({3, 2})}, {v, m}).data, (std::vector<double>{7, 8}));
  EXPECT_EQ(evaluate("MatMul", {f32({2, 3}), f32({3})}, {m, v}).data, (std::vector<double>{1, 11}));
}

TEST(MatMul, OnlyPlainProductsRemain) {
  for (const auto& [lhs, rhs] : {std::pair{Shape{4, 2, 3}, Shape{3, 2}},
                                 {Shape{3}, Shape{3, 2}},
                                 {Shape{2, 3}, Shape{3, 2}},
                                 {Shape{4, 2, 3}, Shape{4, 3, 2}}}) {
    SingleOp single("MatMul", {f32(lhs), f32(rhs)});
    Graph& graph = single.ir.main_graph();
    graph.mark_output(single.op->output(0));
    expand(graph);
    int products = 0;
    for (const Op* op : graph.ops()) products += op->kind_name() == "MatMul";
    EXPECT_EQ(products, 1) << shape_text(lhs);
  }
}

TEST(MatMul, Float8ExpandsToAScaledProduct) {
  const TensorInfo operand = typed(DType::Float8_143, {2, 2});
  SingleOp single("MatMul", {operand, operand, typed(DType::Int32, {})});
  Graph& graph = single.ir.main_graph();
  graph.mark_output(single.op->output(0));
  expand(graph);
  Evaluator evaluator;
  evaluator.set(single.inputs[0], {1, 2, 3, 4});
  evaluator.set(single.inputs[1], {1, 0, 0, 1});
  evaluator.set(single.inputs[2], {-1});
  evaluator.run(graph);
  EXPECT_EQ(evaluator.value(graph.outputs()[0]).data, (std::vector<double>{0.5, 1, 1.5, 2}));
  EXPECT_EQ(graph.outputs()[0]->dtype(), DType::Float16);
}

}  // namespace
}  // namespace pando::testing
