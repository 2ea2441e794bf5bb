// The steps of recurrent networks. What does not depend on the steps before, the product with the
// inputs, is an ordinary MatMul in front of them.
#include <algorithm>

#include "pando/ops/joins.hpp"
#include "pando/ops/nn_rules.hpp"
#include "pando/ops/ops.hpp"
#include "pando/ops/rules.hpp"

namespace pando {
namespace {

using enum AttributeType;

bool is_lstm(const Op& op) { return op.attributes.text("cell") == "lstm"; }
bool is_gru(const Op& op) { return op.attributes.text("cell") == "gru"; }

/// Blocks of `hidden` rows that the weights of a cell have.
std::int64_t gates_of(const Op& op) {
  const std::string& cell = op.attributes.text("cell");
  if (cell == "lstm") return 4;
  if (cell == "gru") return 3;
  if (cell == "tanh" || cell == "relu") return 1;
  throw ValueError(
      str_cat(describe(op), ": unknown cell '", cell, "'; wanted lstm, gru, tanh or relu"));
}

struct Sizes {
  std::int64_t steps, batch, hidden, gates;

  Shape states() const { return {steps, batch, hidden}; }
  Shape parts() const { return {steps, batch, gates * hidden}; }
  Shape saved() const { return {steps, batch, 4 * hidden}; }
  Shape state() const { return {batch, hidden}; }
};

void check_shape(const Op& op, int index, const char* role, const Shape& shape) {
  const Tensor* t = op.input(index);
  check_inputs(op, t == nullptr || t->shape() == shape,
               str_cat("wanted ", role, " of shape ", shape_text(shape)));
}

/// Sizes by the weights (gates * hidden, hidden) at `weights_at` and a tensor (steps, batch, any).
Sizes sizes_of(const Op& op, const Tensor& steps, int weights_at) {
  const Tensor& weights = needed_input(op, weights_at, "weights");
  const std::int64_t gates = gates_of(op);
  check_inputs(op, steps.shape().size() == 3, "wanted inputs of shape (steps, batch, features)");
  check_inputs(op, weights.shape().size() == 2 && weights.shape()[0] == gates * weights.shape()[1],
               str_cat("wanted weights of shape (", gates, " * hidden, hidden)"));
  return {steps.shape()[0], steps.shape()[1], weights.shape()[1], gates};
}

void needs_equal_small_floats(const Op& op) {
  const DType dtype = input_info(op, 0).dtype;
  bool same = is_floating_point(dtype) && !is_float8(dtype) && dtype_bytes(dtype) <= 4;
  for (int i = 1; i < op.num_inputs(); ++i) {
    same = same && (op.input(i) == nullptr || op.input(i)->dtype() == dtype);
  }
  check_inputs(op, same, "wanted all inputs of one dtype: float32 or a float dtype of 16 bits");
}

const std::vector<AttributeSpec> kAttributes = {{"cell", Text}, {"reverse", Flag, false}};

std::vector<TensorInfo> infer_sequence(const Op& op) {
  const Tensor& parts = needed_input(op, 0, "parts");
  const Sizes sizes = sizes_of(op, parts, 1);
  check_shape(op, 0, "parts", sizes.parts());
  check_shape(op, 2, "bias", {sizes.gates * sizes.hidden});
  check_shape(op, 3, "the first state", sizes.state());
  check_shape(op, 4, "the first cell state", sizes.state());
  check_inputs(op, is_gru(op) || op.input(2) == nullptr, "wanted a bias only for the cell gru");
  check_inputs(op, is_lstm(op) || op.input(4) == nullptr,
               "wanted a first cell state only for the cell lstm");
  std::vector<TensorInfo> infos = {plain_info(parts.dtype(), sizes.states())};
  if (sizes.gates > 1) infos.push_back(plain_info(parts.dtype(), sizes.saved()));
  if (is_lstm(op)) infos.push_back(infos.front());
  return infos;
}

/// The state that every step begins with.
Tensor* states_before(OpBuilder& builder, const Op& op, Tensor* states, Tensor* first) {
  const Shape& shape = states->shape();
  const Shape one = {1, shape[1], shape[2]};
  first = first == nullptr ? zeros(builder, states->dtype(), one) : builder.reshape(first, one);
  const bool reverse = op.attributes.flag_or("reverse", false);
  Tensor* rest = slice_axis(builder, states, 0, reverse ? 1 : 0, shape[0] - 1);
  return builder.make("Concat", reverse ? std::vector{rest, first} : std::vector{first, rest},
                      {{"axis", std::int64_t{0}}});
}

/// sum over steps and batch of `gradient` times `states`: (gates * hidden, hidden).
Tensor* weights_gradient(OpBuilder& builder, Tensor* gradient, Tensor* states) {
  const auto rows = [&](Tensor* t) {
    return builder.reshape(t, {t->shape()[0] * t->shape()[1], t->shape()[2]});
  };
  Tensor* lhs = builder.make("Transpose", {rows(gradient)}, {{"permutation", Ints{1, 0}}});
  return builder.make("MatMul", {lhs, rows(states)});
}

void sequence_gradient(GradientBuilder& builder, const Op& op) {
  Tensor* g = builder.output_gradient(0);
  Tensor* g_cells = is_lstm(op) ? builder.output_gradient(2) : nullptr;
  if (g == nullptr && g_cells == nullptr) return;
  const auto forward = [&](Tensor* t) { return t == nullptr ? nullptr : builder.forward(t); };
  Tensor* states = builder.forward(op.output(0));
  Tensor* saved = op.num_outputs() > 1 ? builder.forward(op.output(1)) : nullptr;
  Tensor* cells = is_lstm(op) ? builder.forward(op.output(2)) : nullptr;
  Tensor* first = forward(op.input(3));
  Op& grad = builder.op(
      "RecurrentSequenceGrad",
      {builder.forward(op.input(1)), states, g, g_cells, saved, cells, first, forward(op.input(4))},
      op.attributes);
  if (builder.wants(0)) builder.set_input_gradient(0, grad.output(0));
  Tensor* hidden = grad.output(is_gru(op) ? 2 : 0);
  if (builder.wants(1)) {
    builder.set_input_gradient(
        1, weights_gradient(builder, hidden, states_before(builder, op, states, first)));
  }
  if (op.input(2) != nullptr && builder.wants(2)) {
    builder.set_input_gradient(
        2, builder.make("ReduceSum", {hidden}, {{"axes", Ints{0, 1}}, {"keepdims", false}}));
  }
  if (op.input(3) != nullptr && builder.wants(3)) builder.set_input_gradient(3, grad.output(1));
  if (op.input(4) != nullptr && builder.wants(4)) builder.set_input_gradient(4, grad.output(2));
}

OpDef recurrent_sequence() {
  OpDef def;
  def.name = "RecurrentSequence";
  def.doc =
      "All steps of a recurrent layer in one direction. Inputs: 0 parts (steps, batch, gates * "
      "hidden), what the inputs add to the gates, 1 weights W (gates * hidden, hidden), 2 bias "
      "(gates * hidden, only gru), 3 first state (batch, hidden), 4 first cell state (only lstm); "
      "absent states are 0. Attributes: cell, reverse (from the last step to the first; default "
      "false). With p = parts and q = W h: lstm (gates i, f, g, o): c = s(pf + qf) c + s(pi + qi) "
      "tanh(pg + qg), h = s(po + qo) tanh(c); gru (r, z, n; q with the bias): n = tanh(pn + "
      "s(pr + qr) qn), h = (1 - s(pz + qz)) n + s(pz + qz) h; tanh, relu: h = f(p + q). Outputs: 0 "
      "the states h (steps, batch, hidden), 1 (lstm, gru) gates for the gradient (steps, batch, 4 "
      "* hidden): i, f, g, o or r, z, n, qn, 2 (lstm) the cell states.";
  def.min_inputs = 2;
  def.max_inputs = 5;
  def.attributes = kAttributes;
  def.infer = infer_sequence;
  def.check_execution = needs_equal_small_floats;
  def.optional_outputs = {1, 2};
  def.differentiable_inputs = {0, 1, 2, 3, 4};
  def.gradient = sequence_gradient;
  return def;
}

std::vector<TensorInfo> infer_sequence_grad(const Op& op) {
  const Tensor& states = needed_input(op, 1, "states");
  const Sizes sizes = sizes_of(op, states, 0);
  check_shape(op, 1, "states", sizes.states());
  check_shape(op, 2, "g", sizes.states());
  check_shape(op, 3, "the gradient of the cell states", sizes.states());
  check_shape(op, 4, "gates", sizes.saved());
  check_shape(op, 5, "cell states", sizes.states());
  check_shape(op, 6, "the first state", sizes.state());
  check_shape(op, 7, "the first cell state", sizes.state());
  check_inputs(op, op.input(2) != nullptr || op.input(3) != nullptr, "wanted a gradient");
  check_inputs(op, (sizes.gates > 1) == (op.input(4) != nullptr),
               "wanted gates for the cells lstm and gru only");
  check_inputs(op, is_lstm(op) == (op.input(5) != nullptr),
               "wanted cell states for the cell lstm only");
  const DType dtype = states.dtype();
  std::vector<TensorInfo> infos = {plain_info(dtype, sizes.parts()),
                                   plain_info(dtype, sizes.state())};
  if (is_lstm(op)) infos.push_back(infos.back());
  if (is_gru(op)) infos.push_back(infos.front());
  return infos;
}

OpDef recurrent_sequence_grad() {
  OpDef def;
  def.name = "RecurrentSequenceGrad";
  def.doc =
      "Inputs: 0 weights, 1 states (output 0 of RecurrentSequence), 2 gradient of the states, 3 "
      "gradient of the cell states, 4 gates (output 1), 5 cell states (output 2), 6 first state, 7 "
      "first cell state; absent gradients and states are 0. Attributes: those of "
      "RecurrentSequence. Outputs: 0 gradient of the parts, 1 gradient of the first state, 2 lstm: "
      "gradient of the first cell state; gru: gradient of W h + bias (steps, batch, gates * "
      "hidden), which is that of the parts for the other cells.";
  def.min_inputs = def.max_inputs = 8;
  def.attributes = kAttributes;
  def.infer = infer_sequence_grad;
  def.check_execution = needs_equal_small_floats;
  return def;
}

}  // namespace

void register_recurrent_ops(Registry& registry) {
  registry.add(recurrent_sequence());
  registry.add(recurrent_sequence_grad());
}

}  // namespace pando
