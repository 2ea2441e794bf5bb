// Products of groups of rows with a matrix for each group, as layers of experts have them.
#include "pando/ops/nn_rules.hpp"
#include "pando/ops/ops.hpp"
#include "pando/ops/rules.hpp"

namespace pando {
namespace {

constexpr const char* kGroups =
    "ends (groups) are integers: rows from the end of the group before up to ends[g] belong to "
    "group g. An end below the one before counts as that one, an end beyond the rows as their "
    "number; rows behind the last end belong to no group. ";

void check_operands(const Op& op) {
  require_float(op, 0);
  require_same_dtype(op, 0, 1);
  require_integer(op, 2);
}

void grouped_matmul_gradient(GradientBuilder& builder, const Op& op) {
  Tensor* g = builder.output_gradient(0);
  if (g == nullptr) return;
  Tensor* ends = builder.forward(op.input(2));
  if (builder.wants(0)) {
    Tensor* w = transposed(builder, builder.forward(op.input(1)));
    builder.set_input_gradient(0, builder.make("GroupedMatMul", {g, w, ends}));
  }
  if (!builder.wants(1)) return;
  Tensor* x = builder.forward(op.input(0));
  builder.set_input_gradient(1, builder.make("GroupedOuter", {x, g, ends}));
}

OpDef grouped_matmul() {
  OpDef def;
  def.name = "GroupedMatMul";
  def.doc = str_cat(
      "Inputs: 0 x (rows, k), 1 w (groups, k, n), 2 ends. ", kGroups,
      "Output (rows, n): x[i] w[g] for row i of group g, zeros for rows that belong to no group.");
  def.min_inputs = def.max_inputs = 3;
  def.infer = [](const Op& op) {
    const Shape& x = needed_input(op, 0, "x").shape();
    const Shape& w = needed_input(op, 1, "w").shape();
    const Shape& ends = needed_input(op, 2, "ends").shape();
    check_inputs(op, x.size() == 2 && w.size() == 3 && w[1] == x[1] && ends == Shape{w[0]},
                 "wanted x (rows, k), w (groups, k, n) and ends (groups)");
    return std::vector<TensorInfo>{plain_info(op.input(0)->dtype(), {x[0], w[2]})};
  };
  def.check_execution = check_operands;
  def.differentiable_inputs = {0, 1};
  def.gradient = grouped_matmul_gradient;
  return def;
}

void grouped_outer_gradient(GradientBuilder& builder, const Op& op) {
  Tensor* g = builder.output_gradient(0);
  if (g == nullptr) return;
  Tensor* ends = builder.forward(op.input(2));
  for (int input = 0; input < 2; ++input) {
    if (!builder.wants(input)) continue;
    Tensor* other = builder.forward(op.input(1 - input));
    Tensor* matrices = input == 0 ? transposed(builder, g) : g;
    builder.set_input_gradient(input, builder.make("GroupedMatMul", {other, matrices, ends}));
  }
}

OpDef grouped_outer() {
  OpDef def;
  def.name = "GroupedOuter";
  def.doc = str_cat("Inputs: 0 x (rows, k), 1 y (rows, n), 2 ends. ", kGroups,
                    "Output (groups, k, n): the sum of x[i]^T y[i] over the rows i of each group.");
  def.min_inputs = def.max_inputs = 3;
  def.infer = [](const Op& op) {
    const Shape& x = needed_input(op, 0, "x").shape();
    const Shape& y = needed_input(op, 1, "y").shape();
    const Shape& ends = needed_input(op, 2, "ends").shape();
    check_inputs(op, x.size() == 2 && y.size() == 2 && x[0] == y[0] && ends.size() == 1,
                 "wanted matrices with equally many rows, and ends with one axis");
    return std::vector<TensorInfo>{plain_info(op.input(0)->dtype(), {ends[0], x[1], y[1]})};
  };
  def.check_execution = check_operands;
  def.differentiable_inputs = {0, 1};
  def.gradient = grouped_outer_gradient;
  return def;
}

}  // namespace

void register_grouped_matmul_ops(Registry& registry) {
  registry.add(grouped_matmul());
  registry.add(grouped_outer());
}

}  // namespace pando
