// Attention: the softmax of products of queries and keys, times values, as one op.
#include <cmath>

#include "pando/ops/nn_rules.hpp"
#include "pando/ops/ops.hpp"
#include "pando/ops/rules.hpp"

namespace pando {
namespace {

using enum AttributeType;

const std::vector<AttributeSpec> kAttentionAttributes = {{"scale", Number, false},
                                                         {"window", IntList, false},
                                                         {"alignment", Text, false},
                                                         {"p", Number, false}};

/// Input numbers of the operands, which the gradient has after its own ones.
struct Operands {
  int q, k, v, mask, seed, length;
};

/// Shapes by role; the number of heads is 1 for matrices.
struct AttentionShape {
  Shape batch;  // dimensions before the heads
  std::int64_t heads = 1, kv_heads = 1, rows = 0, keys = 0, depth = 0, value_depth = 0;
  std::size_t rank = 0;

  Shape of(std::int64_t head_count, const Shape& rest) const {
    Shape shape = batch;
    if (rank > 2) shape.push_back(head_count);
    return join_shapes(std::move(shape), rest);
  }
  Shape scores() const { return of(heads, {rows, keys}); }
};

AttentionShape shape_of(const Op& op, const Operands& at) {
  const Tensor& q = needed_input(op, at.q, "q");
  const Tensor& k = needed_input(op, at.k, "k");
  const Tensor& v = needed_input(op, at.v, "v");
  AttentionShape shape;
  shape.rank = q.shape().size();
  check_inputs(op,
               shape.rank >= 2 && k.shape().size() == shape.rank && v.shape().size() == shape.rank,
               "wanted q, k and v of one rank, 2 or more");
  check_inputs(op, q.dtype() == k.dtype() && q.dtype() == v.dtype(),
               "wanted q, k and v of one dtype");
  if (shape.rank > 2) {
    shape.batch = Shape(q.shape().begin(), q.shape().end() - 3);
    shape.heads = q.shape()[shape.rank - 3];
    shape.kv_heads = k.shape()[shape.rank - 3];
  }
  shape.rows = q.shape()[shape.rank - 2];
  shape.depth = q.shape().back();
  shape.keys = k.shape()[shape.rank - 2];
  shape.value_depth = v.shape().back();
  check_inputs(op,
               k.shape() == shape.of(shape.kv_heads, {shape.keys, shape.depth}) &&
                   v.shape() == shape.of(shape.kv_heads, {shape.keys, shape.value_depth}),
               "wanted q [..., heads, queries, depth], k [..., kv_heads, keys, depth] and v [..., "
               "kv_heads, keys, value_depth]");
  check_inputs(op, shape.depth > 0, "wanted a depth of 1 or more");
  check_inputs(op, shape.kv_heads > 0 ? shape.heads % shape.kv_heads == 0 : shape.heads == 0,
               "wanted a number of heads of q that is a multiple of that of k and v");
  return shape;
}

void check_mask(const Op& op, const Operands& at, const AttentionShape& shape) {
  const Tensor* mask = op.input(at.mask);
  if (mask == nullptr) return;
  check_inputs(op, mask->dtype() == DType::Bool || mask->dtype() == op.input(at.q)->dtype(),
               "wanted a mask that is bool or has the dtype of q");
  check_inputs(op, broadcast_shapes(mask->shape(), shape.scores()) == shape.scores(),
               str_cat("wanted a mask that broadcasts to ", shape_text(shape.scores())));
}

void check_seed_and_length(const Op& op, const Operands& at) {
  const double p = op.attributes.number_or("p", 0);
  if (!(p >= 0 && p < 1)) {
    throw ValueError(str_cat(describe(op), ": wanted 0 <= p < 1, not ", p));
  }
  const Tensor* seed = op.input(at.seed);
  check_inputs(op, p == 0 || seed != nullptr, "wanted a seed for a dropout probability above 0");
  check_inputs(op, seed == nullptr || (seed->shape() == Shape{2} && seed->dtype() == DType::UInt32),
               "seed Tensor must be shape=(2,) dtype=uint32");
  const Tensor* length = op.input(at.length);
  check_inputs(
      op, length == nullptr || (is_integer(length->dtype()) && length->info.num_elements() == 1),
      "wanted a length of an integer dtype with one element");
}

void check_attributes(const Op& op) {
  const double scale = op.attributes.number_or("scale", 1);
  check_inputs(op, std::isfinite(scale), str_cat("wanted a finite scale, got ", scale));
  if (op.attributes.has("window")) {
    const Ints& window = op.attributes.ints("window");
    check_inputs(op, window.size() == 2 && window[0] >= -1 && window[1] >= -1,
                 "wanted a window [left, right] of numbers from 0 on, or -1 for no limit");
  }
  if (op.attributes.has("alignment")) {
    const std::string& alignment = op.attributes.text("alignment");
    check_inputs(op, alignment == "top_left" || alignment == "bottom_right",
                 str_cat("wanted alignment top_left or bottom_right, got ", alignment));
  }
}

AttentionShape checked_shape(const Op& op, const Operands& at) {
  const AttentionShape shape = shape_of(op, at);
  check_mask(op, at, shape);
  check_seed_and_length(op, at);
  check_attributes(op);
  return shape;
}

void needs_half_or_float(const Op& op, int q) {
  check_inputs(op, is_half_or_single_precision(op.input(q)->dtype()),
               "wanted q, k and v of float16, bfloat16 or float32");
}

constexpr Operands kForward{0, 1, 2, 3, 4, 5};
constexpr int kOut = 4, kLogSumExp = 5;  // inputs of the gradient
constexpr Operands kBackward{1, 2, 3, 6, 7, 8};

void attention_gradient(GradientBuilder& builder, const Op& op) {
  if (builder.output_gradient(1) != nullptr) {
    throw Error(str_cat(describe(op), ": its output 1, the log-sum-exp, has no gradient"));
  }
  Tensor* g = builder.output_gradient(0);
  const Tensor* mask = op.input(kForward.mask);
  const bool of_mask =
      mask != nullptr && is_floating_point(mask->dtype()) && builder.wants(kForward.mask);
  const bool of_operands =
      builder.wants(kForward.q) || builder.wants(kForward.k) || builder.wants(kForward.v);
  if (g == nullptr || !(of_mask || of_operands)) return;
  std::vector<Tensor*> inputs = {g};
  const auto add = [&](Tensor* t) { inputs.push_back(t == nullptr ? t : builder.forward(t)); };
  for (int i : {kForward.q, kForward.k, kForward.v}) add(op.input(i));
  for (int i : {0, 1}) add(op.output(i));
  for (int i = kForward.mask; i < op.num_inputs(); ++i) add(op.input(i));
  Attributes attributes = op.attributes;
  if (of_mask) attributes.set("mask_gradient", true);
  const Op& made = builder.op("ScaledDotProductAttentionGrad", inputs, attributes);
  for (int i : {kForward.q, kForward.k, kForward.v}) {
    if (builder.wants(i)) builder.set_input_gradient(i, made.output(i));
  }
  if (of_mask) {
    builder.set_input_gradient(kForward.mask, builder.reduce_to(made.output(3), mask->shape()));
  }
}

OpDef attention() {
  OpDef def;
  def.name = "ScaledDotProductAttention";
  def.doc =
      "Inputs: 0 q [..., heads, queries, depth], 1 k [..., kv_heads, keys, depth], 2 v [..., "
      "kv_heads, keys, value_depth], float16, bfloat16 or float32; optional: 3 mask, broadcast to "
      "the scores [..., heads, queries, keys]: bool (true: seen) or added, 4 seed (2,) uint32, 5 "
      "length, an integer: keys from it on are not read. Head h sees the k and v of head h / "
      "(heads / kv_heads). Attributes: scale (default 1 / sqrt(depth)); window [left, right] (-1: "
      "no limit): query i sees keys i + s - left to i + s + right; alignment: s is 0 (top_left, "
      "default) or length - queries (bottom_right); p (default 0): each weight is 0 with this "
      "probability, else divided by 1 - p, as Dropout of the scores' shape does. Outputs: 0 "
      "dropout(softmax(scale * q k^T + mask)) v, where rows that see no key are 0, 1 float32 [..., "
      "heads, queries]: the logarithm of the sum of the exponentials of each row's scores.";
  def.min_inputs = 3;
  def.max_inputs = 6;
  def.attributes = kAttentionAttributes;
  def.infer = [](const Op& op) {
    const AttentionShape shape = checked_shape(op, kForward);
    Shape rows = shape.of(shape.heads, {shape.rows});
    return std::vector<TensorInfo>{
        plain_info(op.input(0)->dtype(), shape.of(shape.heads, {shape.rows, shape.value_depth})),
        plain_info(DType::Float32, std::move(rows))};
  };
  def.check_execution = [](const Op& op) { needs_half_or_float(op, kForward.q); };
  def.differentiable_inputs = {kForward.q, kForward.k, kForward.v, kForward.mask};
  def.gradient = attention_gradient;
  return def;
}

OpDef attention_grad() {
  OpDef def;
  def.name = "ScaledDotProductAttentionGrad";
  def.doc =
      "Inputs: 0 g, the gradient of the attention's output 0, 1 q, 2 k, 3 v, 4 and 5 its outputs; "
      "optional: 6 mask, 7 seed, 8 length. Attributes as there, and mask_gradient. Outputs: 0 dq, "
      "1 dk, 2 dv; with mask_gradient 3 the gradient of the mask before it was broadcast back, of "
      "the scores' shape.";
  def.min_inputs = 6;
  def.max_inputs = 9;
  def.attributes = kAttentionAttributes;
  def.attributes.push_back({"mask_gradient", Flag, false});
  def.infer = [](const Op& op) {
    const AttentionShape shape = checked_shape(op, kBackward);
    const TensorInfo out =
        plain_info(op.input(1)->dtype(), shape.of(shape.heads, {shape.rows, shape.value_depth}));
    for (int i : {0, kOut}) {
      const Tensor& t = needed_input(op, i, i == 0 ? "g" : "out");
      check_inputs(
          op, t.shape() == out.shape && t.dtype() == out.dtype,
          str_cat("wanted g and out of shape ", shape_text(out.shape), " and dtype ", out.dtype));
    }
    const Tensor& rows = needed_input(op, kLogSumExp, "log_sum_exp");
    check_inputs(
        op, rows.dtype() == DType::Float32 && rows.shape() == shape.of(shape.heads, {shape.rows}),
        "wanted a float32 log-sum-exp of every query");
    std::vector<TensorInfo> outputs;
    for (int i : {kBackward.q, kBackward.k, kBackward.v}) {
      outputs.push_back(plain_info(out.dtype, op.input(i)->shape()));
    }
    if (op.attributes.flag_or("mask_gradient", false)) {
      outputs.push_back(plain_info(out.dtype, shape.scores()));
    }
    return outputs;
  };
  def.check_execution = [](const Op& op) { needs_half_or_float(op, kBackward.q); };
  return def;
}

}  // namespace

void register_attention_ops(Registry& registry) {
  registry.add(attention());
  registry.add(attention_grad());
}

}  // namespace pando
