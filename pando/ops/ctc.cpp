// Connectionist temporal classification: the loss and the search for the best labels.
#include "pando/ops/nn_rules.hpp"
#include "pando/ops/ops.hpp"
#include "pando/ops/rules.hpp"

namespace pando {
namespace {

using enum AttributeType;

void check_blank(const Op& op, const Shape& probabilities) {
  const std::int64_t blank = op.attributes.integer("blank");
  check_inputs(op, probabilities.size() == 3,
               "wanted log probabilities of shape (steps, batch, classes)");
  check_inputs(op, blank >= 0 && blank < probabilities[2],
               str_cat("wanted a blank from 0 to below ", probabilities[2], ", not ", blank));
}

/// Checks the inputs from `first` on: log probabilities, targets and both lengths.
void check_ctc(const Op& op, int first) {
  const Shape& shape = needed_input(op, first, "log_probs").shape();
  check_blank(op, shape);
  const Shape& targets = needed_input(op, first + 1, "targets").shape();
  check_inputs(op, targets.size() == 2 && targets[0] == shape[1],
               str_cat("wanted targets of shape (", shape[1], ", labels)"));
  for (const int i : {first + 2, first + 3}) {
    check_inputs(op, needed_input(op, i, "lengths").shape() == Shape{shape[1]},
                 str_cat("wanted lengths of shape (", shape[1], ",)"));
  }
}

void needs_ctc_dtypes(const Op& op, int first) {
  require_float(op, first);
  for (int i = first + 1; i < op.num_inputs(); ++i) require_integer(op, i);
}

const std::vector<AttributeSpec> kLossAttributes = {{"blank", Integer}, {"zero_infinity", Flag}};

OpDef ctc_loss() {
  OpDef def;
  def.name = "CtcLoss";
  def.doc =
      "Inputs: 0 log_probs (steps, batch, classes), 1 targets (batch, labels), 2 input_lengths "
      "(batch,), 3 target_lengths (batch,); integers. Attributes: blank, zero_infinity. Output "
      "(batch,): -ln of the sum over all alignments of the first target_lengths labels with the "
      "first input_lengths steps. Without an alignment: infinity, 0 with zero_infinity. NaN where "
      "a "
      "length or a label is out of range.";
  def.min_inputs = def.max_inputs = 4;
  def.attributes = kLossAttributes;
  def.infer = [](const Op& op) {
    check_ctc(op, 0);
    return std::vector<TensorInfo>{plain_info(op.input(0)->dtype(), {op.input(0)->shape()[1]})};
  };
  def.check_execution = [](const Op& op) { needs_ctc_dtypes(op, 0); };
  def.differentiable_inputs = {0};
  def.gradient = [](GradientBuilder& builder, const Op& op) {
    Tensor* g = builder.output_gradient(0);
    if (g == nullptr || !builder.wants(0)) return;
    std::vector<Tensor*> inputs = {g};
    for (Tensor* input : op.inputs()) inputs.push_back(builder.forward(input));
    builder.set_input_gradient(0, builder.make("CtcLossGrad", inputs, op.attributes));
  };
  return def;
}

OpDef ctc_loss_grad() {
  OpDef def;
  def.name = "CtcLossGrad";
  def.doc =
      "Inputs: 0 g (batch,), 1 to 4 the inputs of CtcLoss. Attributes: those of CtcLoss. -g times "
      "the probability, given the labels, that step t stands for class c. 0 where the step is past "
      "input_lengths; where the loss is infinite 0 with zero_infinity, else NaN; NaN where a "
      "length "
      "or a label is out of range.";
  def.min_inputs = def.max_inputs = 5;
  def.attributes = kLossAttributes;
  def.infer = [](const Op& op) {
    const Tensor& g = needed_input(op, 0, "g");
    check_ctc(op, 1);
    const Tensor& log_probs = *op.input(1);
    check_inputs(op, g.shape() == Shape{log_probs.shape()[1]}, "wanted a gradient for each sample");
    return std::vector<TensorInfo>{plain_info(log_probs.dtype(), log_probs.shape())};
  };
  def.check_execution = [](const Op& op) {
    require_same_dtype(op, 0, 1);
    needs_ctc_dtypes(op, 1);
  };
  return def;
}

OpDef ctc_beam_search() {
  OpDef def;
  def.name = "CtcBeamSearch";
  def.doc =
      "Inputs: 0 log_probs (steps, batch, classes), 1 lengths (batch,), integers. Attributes: "
      "blank, beam_width, top_paths. Prefix beam search: keeps the beam_width most probable label "
      "sequences of every step. Outputs, best path first: 0 ln of the probabilities (batch, "
      "top_paths), 1 int32 lengths (batch, top_paths), 2 int32 labels (batch, top_paths, steps), "
      "blank behind the end. Paths that do not exist have -infinity and no labels. A length out of "
      "range counts as the nearest one in range.";
  def.min_inputs = def.max_inputs = 2;
  def.attributes = {{"blank", Integer}, {"beam_width", Integer}, {"top_paths", Integer}};
  def.infer = [](const Op& op) {
    const Tensor& log_probs = needed_input(op, 0, "log_probs");
    const Shape& shape = log_probs.shape();
    check_blank(op, shape);
    check_inputs(op, needed_input(op, 1, "lengths").shape() == Shape{shape[1]},
                 str_cat("wanted lengths of shape (", shape[1], ",)"));
    const std::int64_t width = op.attributes.integer("beam_width");
    const std::int64_t paths = op.attributes.integer("top_paths");
    check_inputs(op, paths >= 1 && paths <= width,
                 str_cat("wanted 1 <= top_paths <= beam_width, not ", paths, " and ", width));
    return std::vector<TensorInfo>{plain_info(log_probs.dtype(), {shape[1], paths}),
                                   plain_info(DType::Int32, {shape[1], paths}),
                                   plain_info(DType::Int32, {shape[1], paths, shape[0]})};
  };
  def.check_execution = [](const Op& op) { needs_ctc_dtypes(op, 0); };
  return def;
}

}  // namespace

void register_ctc_ops(Registry& registry) {
  registry.add(ctc_loss());
  registry.add(ctc_loss_grad());
  registry.add(ctc_beam_search());
}

}  // namespace pando
