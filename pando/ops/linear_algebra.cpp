// Triangular systems and the Cholesky factor.
#include <algorithm>
#include <numeric>
#include <vector>

#include "pando/ops/nn_rules.hpp"
#include "pando/ops/ops.hpp"
#include "pando/ops/rules.hpp"

namespace pando {
namespace {

using enum AttributeType;

/// Checks that input 0 is a batch of square matrices, and gives their size.
std::int64_t square_size(const Op& op) {
  const Shape& shape = needed_input(op, 0, "t").shape();
  check_inputs(op, shape.size() >= 2 && shape.back() == shape[shape.size() - 2],
               "wanted square matrices (..., n, n)");
  return shape.back();
}

/// `t` times 1 inside of a triangle, `diagonal` on the diagonal and 0 elsewhere.
Tensor* triangle_of(OpBuilder& builder, Tensor* t, bool upper, float diagonal) {
  const std::int64_t n = t->shape().back();
  std::vector<float> mask(static_cast<std::size_t>(n * n));
  for (std::int64_t i = 0; i < n * n; ++i) {
    const std::int64_t row = i / n, column = i % n;
    const bool inside = upper ? row < column : row > column;
    mask[static_cast<std::size_t>(i)] = row == column ? diagonal : inside ? 1.0f : 0.0f;
  }
  Tensor* factors = builder.constant({DType::Float32, {n, n}, {}}, mask.data());
  return builder.make("Mul", {t, builder.cast(factors, t->dtype())});
}

void needs_floats_of_one_dtype(const Op& op) {
  for (int i = 0; i < op.num_inputs(); ++i) {
    require_float(op, i);
    require_same_dtype(op, 0, i);
  }
}

void solve_gradient(GradientBuilder& builder, const Op& op) {
  Tensor* g = builder.output_gradient(0);
  if (g == nullptr) return;
  const bool upper = op.attributes.flag_or("upper", false);
  const bool transpose = op.attributes.flag_or("transpose", false);
  const bool unit = op.attributes.flag_or("unit_diagonal", false);
  Attributes attributes = pick_attributes(op, {"upper", "unit_diagonal"});
  attributes.set("transpose", !transpose);
  Tensor* b_gradient =
      builder.make("TriangularSolve", {builder.forward(op.input(0)), g}, attributes);
  if (builder.wants(1)) builder.set_input_gradient(1, b_gradient);
  if (!builder.wants(0)) return;
  Tensor* x = builder.forward(op.output(0));
  Tensor* left = transpose ? x : b_gradient;
  Tensor* right = transpose ? b_gradient : x;
  Tensor* product = builder.make("MatMul", {left, transposed(builder, right)});
  Tensor* inside = triangle_of(builder, product, upper, unit ? 0.0f : 1.0f);
  builder.set_input_gradient(0, builder.make("Neg", {inside}));
}

OpDef triangular_solve() {
  OpDef def;
  def.name = "TriangularSolve";
  def.doc =
      "Inputs: 0 t (..., n, n), of which one triangle is read, 1 b (..., n, columns). Attributes, "
      "default false: upper (the upper triangle, else the lower one), transpose, unit_diagonal "
      "(the diagonal is not read and counts as 1). x with t x = b; with transpose t^T x = b.";
  def.min_inputs = def.max_inputs = 2;
  def.attributes = {
      {"upper", Flag, false}, {"transpose", Flag, false}, {"unit_diagonal", Flag, false}};
  def.infer = [](const Op& op) {
    const std::int64_t n = square_size(op);
    const Tensor& b = needed_input(op, 1, "b");
    Shape wanted = op.input(0)->shape();
    if (!b.shape().empty()) wanted.back() = b.shape().back();
    check_inputs(op, b.shape() == wanted,
                 str_cat("wanted b with ", n, " rows and the batch dimensions of t"));
    return std::vector<TensorInfo>{plain_info(b.dtype(), b.shape())};
  };
  def.check_execution = needs_floats_of_one_dtype;
  def.differentiable_inputs = {0, 1};
  def.gradient = solve_gradient;
  return def;
}

/// With L^T g masked as P: (S + S^T) / 2 for S = L^-T P L^-1 (Murray, "Differentiation of the
/// Cholesky decomposition", 2016).
void cholesky_gradient(GradientBuilder& builder, const Op& op) {
  Tensor* g = builder.output_gradient(0);
  if (g == nullptr) return;
  Tensor* factor = builder.forward(op.output(0));
  Tensor* product = builder.make("MatMul", {transposed(builder, factor), g});
  Tensor* sum = triangle_of(builder, product, false, 0.5f);
  for (int side = 0; side < 2; ++side) {
    sum =
        transposed(builder, builder.make("TriangularSolve", {factor, sum}, {{"transpose", true}}));
  }
  Tensor* both = builder.make("Add", {sum, transposed(builder, sum)});
  builder.set_input_gradient(0, builder.make("Mul", {both, builder.constant(0.5, both->dtype())}));
}

OpDef cholesky() {
  OpDef def;
  def.name = "Cholesky";
  def.doc =
      "Inputs: 0 t (..., n, n). The lower triangular L with L L^T = (t + t^T) / 2; NaN where that "
      "is "
      "not positive definite.";
  def.infer = [](const Op& op) {
    square_size(op);
    return std::vector<TensorInfo>{plain_info(op.input(0)->dtype(), op.input(0)->shape())};
  };
  def.check_execution = needs_floats_of_one_dtype;
  def.differentiable_inputs = {0};
  def.gradient = cholesky_gradient;
  return def;
}

}  // namespace

void register_linear_algebra_ops(Registry& registry) {
  registry.add(triangular_solve());
  registry.add(cholesky());
}

}  // namespace pando
