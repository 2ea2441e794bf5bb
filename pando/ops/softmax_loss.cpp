// Softmax and the negative log-likelihood losses.
#include <cmath>

#include "pando/base/band.hpp"
#include "pando/ops/nn_rules.hpp"
#include "pando/ops/ops.hpp"
#include "pando/ops/rules.hpp"

namespace pando {
namespace {

using enum AttributeType;

const std::vector<AttributeSpec> kSoftmaxAttributes = {
    {"axis", Integer}, {"scale", Number, false}, {"band", IntList, false}};

void check_softmax_attributes(const Op& op, const Shape& shape) {
  const auto rank = static_cast<std::int64_t>(shape.size());
  const std::int64_t axis = axis_attribute(op, rank);
  const double scale = op.attributes.number_or("scale", 1);
  check_inputs(op, std::isfinite(scale) && scale > 0,
               str_cat("wanted a scale above 0, got ", scale));
  if (!op.attributes.has("band")) return;
  const Ints& sides = op.attributes.ints("band");
  check_inputs(op, sides.size() == 2 && rank >= 2 && axis == rank - 1,
               "wanted a band [lower, upper] of matrices, and rows along the last axis");
  const Band band{sides[0], sides[1]};
  check_inputs(op, band.meets_rows(shape[rank - 2], shape[rank - 1]),
               str_cat("band [", band.lower, ", ", band.upper, "] leaves rows of ",
                       shape_text(shape), " empty"));
}

OpDef softmax() {
  OpDef def;
  def.name = "Softmax";
  def.doc =
      "Inputs: 0 t (float). Attributes: axis, scale (default 1), band. t seen as "
      "[prod(shape[:axis]), prod(shape[axis:])]: every row becomes exp(scale * (x - max)) / "
      "sum(exp(scale * (x - max))). With band [lower, upper] (axis is the last) only of columns j "
      "of row i of each matrix with -lower <= j - i <= upper; the others are not read and become "
      "0.";
  def.attributes = kSoftmaxAttributes;
  def.infer = [](const Op& op) {
    const Tensor& t = needed_input(op, 0, "t");
    check_softmax_attributes(op, t.shape());
    return std::vector<TensorInfo>{t.info};
  };
  def.check_execution = needs_floats;
  def.differentiable_inputs = {0};
  def.gradient = [](GradientBuilder& builder, const Op& op) {
    Tensor* g = builder.output_gradient(0);
    if (g == nullptr || !builder.wants(0)) return;
    Tensor* out = builder.forward(op.output(0));
    builder.set_input_gradient(
        0, builder.make("SoftmaxGrad", {out, g}, pick_attributes(op, {"axis", "scale", "band"})));
  };
  return def;
}

OpDef softmax_grad() {
  OpDef def;
  def.name = "SoftmaxGrad";
  def.doc =
      "Inputs: 0 out (the softmax), 1 g. Attributes: axis, scale (default 1), band. scale * out * "
      "(g - sum(g * out)) over the rows of Softmax. With band [lower, upper] only of the columns "
      "that Softmax has in it; the others are not read and become 0.";
  def.min_inputs = def.max_inputs = 2;
  def.attributes = kSoftmaxAttributes;
  def.infer = [](const Op& op) {
    const Tensor& out = needed_input(op, 0, "out");
    const Tensor& g = needed_input(op, 1, "g");
    check_inputs(op, out.info.shape == g.info.shape && out.dtype() == g.dtype(),
                 "wanted a gradient of the softmax's shape and dtype");
    check_softmax_attributes(op, out.shape());
    return std::vector<TensorInfo>{out.info};
  };
  def.check_execution = needs_floats;
  return def;
}

void check_reduction(const Op& op) {
  const std::string& reduction = op.attributes.text("reduction");
  if (reduction != "mean" && reduction != "sum" && reduction != "none") {
    throw ValueError(
        str_cat("Not a valid reduction: ", reduction, ". Must choose from: mean, sum, none"));
  }
}

/// The shape of probs without the class dimension.
Shape rows_shape(const Op& op, const Tensor& probs) {
  check_inputs(op, !probs.shape().empty(), "wanted probs with a class dimension (rank >= 1)");
  return Shape(probs.shape().begin(), probs.shape().end() - 1);
}

void check_labels(const Op& op, const Tensor& probs, const Tensor& labels) {
  check_integer(op, labels, "labels");
  const Shape wanted = rows_shape(op, probs);
  check_inputs(op, labels.shape() == wanted,
               str_cat("wanted labels of shape ", shape_text(wanted),
                       " (that of probs without the last dimension)"));
}

TensorInfo loss_info(const Op& op, const Tensor& probs, const Tensor& labels) {
  const bool each = op.attributes.text("reduction") == "none";
  return plain_info(probs.dtype(), each ? labels.shape() : Shape{});
}

void check_loss_gradient(const Op& op, const Tensor& g, const Tensor& labels) {
  const bool each = op.attributes.text("reduction") == "none";
  check_inputs(
      op, g.shape().empty() || g.info.num_elements() == 1 || (each && g.shape() == labels.shape()),
      each ? "wanted a scalar or label-shaped loss gradient" : "wanted a scalar loss gradient");
}

OpDef nll() {
  OpDef def;
  def.name = "Nll";
  def.doc =
      "Inputs: 0 probs (D1..Dk, classes), 1 labels (D1..Dk) of an integer dtype. Attributes: "
      "reduction (mean, sum, none), ignore_index (optional), log_prob. Per label: "
      "-ln(max(p, eps)), eps 1e-7 (float16: 6.104e-5), or -p with log_prob; labels out of range "
      "have p = 0; ignored ones give 0. mean divides by the number of labels, with ignore_index "
      "by max(kept, 1). Output: loss, dtype of probs, shape () or that of labels.";
  def.min_inputs = def.max_inputs = 2;
  def.attributes = {
      {"reduction", Text}, {"ignore_index", Integer, false}, {"log_prob", Flag, false}};
  def.infer = [](const Op& op) {
    const Tensor& probs = needed_input(op, 0, "probs");
    const Tensor& labels = needed_input(op, 1, "labels");
    check_reduction(op);
    check_labels(op, probs, labels);
    return std::vector<TensorInfo>{loss_info(op, probs, labels)};
  };
  def.check_execution = [](const Op& op) { require_float(op, 0); };
  def.differentiable_inputs = {0};
  def.gradient = [](GradientBuilder& builder, const Op& op) {
    Tensor* g = builder.output_gradient(0);
    if (g == nullptr || !builder.wants(0)) return;
    builder.set_input_gradient(
        0, builder.make("NllGrad", {g, builder.forward(op.input(0)), builder.forward(op.input(1))},
                        pick_attributes(op, {"reduction", "ignore_index", "log_prob"})));
  };
  return def;
}

OpDef nll_grad() {
  OpDef def;
  def.name = "NllGrad";
  def.doc =
      "Inputs: 0 g (gradient of the loss), 1 probs, 2 labels. Attributes as Nll. Output: gradient "
      "of probs: g * k * -1/max(p, e) at the label (log_prob: -g * k), 0 elsewhere; e 1e-10 "
      "(float16: 6.104e-5); k is 1/M or 1/max(kept, 1) for mean, else 1.";
  def.min_inputs = def.max_inputs = 3;
  def.attributes = {
      {"reduction", Text}, {"ignore_index", Integer, false}, {"log_prob", Flag, false}};
  def.infer = [](const Op& op) {
    const Tensor& g = needed_input(op, 0, "g");
    const Tensor& probs = needed_input(op, 1, "probs");
    const Tensor& labels = needed_input(op, 2, "labels");
    check_reduction(op);
    check_labels(op, probs, labels);
    check_loss_gradient(op, g, labels);
    return std::vector<TensorInfo>{probs.info};
  };
  def.check_execution = [](const Op& op) { require_float(op, 1); };
  return def;
}

OpDef nll_with_softmax_grad() {
  OpDef def;
  def.name = "NlllWithSoftmaxGradDirect";
  def.doc =
      "Inputs: 0 probs = softmax(logits) (D1..Dk, classes), 1 labels (any shape of D1 * .. * Dk "
      "elements, in row-major order), 2 loss_grad "
      "(optional; scalar, or label-shaped for none; float16, bfloat16 or float32). Attributes: "
      "reduction (mean, sum, none), ignore_index (optional), from_scores. Outputs: 0 loss: "
      "-ln(p + 1e-7) reduced as Nll (never scaled by loss_grad), 1 dx = (probs - onehot(labels)) * "
      "loss_grad * k, k = 1/M or "
      "1/max(kept, 1) for mean, else 1; rows of ignored labels are 0. from_scores (float32): input "
      "0 is the logits.";
  def.min_inputs = 2;
  def.max_inputs = 3;
  def.attributes = {
      {"reduction", Text}, {"ignore_index", Integer, false}, {"from_scores", Flag, false}};
  def.infer = [](const Op& op) {
    const Tensor& probs = needed_input(op, 0, "probs");
    const Tensor& labels = needed_input(op, 1, "labels");
    check_reduction(op);
    const std::int64_t rows = num_elements(rows_shape(op, probs));
    check_inputs(op, labels.info.num_elements() == rows,
                 str_cat("wanted one label for each of the ", rows, " rows of probs"));
    check_inputs(op,
                 !op.attributes.flag_or("from_scores", false) || probs.dtype() == DType::Float32,
                 "wanted float32 scores");
    if (op.input(2) != nullptr) check_loss_gradient(op, *op.input(2), labels);
    return std::vector<TensorInfo>{loss_info(op, probs, labels), probs.info};
  };
  def.check_execution = [](const Op& op) {
    require_float(op, 0);
    require_integer(op, 1);
    if (op.input(2) != nullptr) require_float(op, 2);
  };
  return def;
}

}  // namespace

void register_softmax_loss_ops(Registry& registry) {
  registry.add(softmax());
  registry.add(softmax_grad());
  registry.add(nll());
  registry.add(nll_grad());
  registry.add(nll_with_softmax_grad());
}

}  // namespace pando
