// Group and layer normalisation.
#include "pando/ops/nn_rules.hpp"
#include "pando/ops/ops.hpp"
#include "pando/ops/resample.hpp"
#include "pando/ops/rules.hpp"

namespace pando {
namespace {

using enum AttributeType;

std::int64_t check_groups(const Op& op, const Tensor& t) {
  check_inputs(op, t.shape().size() >= 2, "wanted data of shape (N, C, ...)");
  const std::int64_t groups = op.attributes.integer("num_groups");
  check_inputs(op, groups >= 1 && t.shape()[1] % groups == 0,
               str_cat("wanted channels divisible by num_groups (", groups, ")"));
  return groups;
}

void needs_equal_floats(const Op& op) {
  needs_floats(op);
  for (int i = 1; i < op.num_inputs(); ++i) {
    check_inputs(op, op.input(i)->dtype() == op.input(0)->dtype(), "wanted inputs of one dtype");
  }
}

const std::vector<AttributeSpec> kGroupAttributes = {
    {"num_groups", Integer}, {"eps", Number}, {"strided_channel_grouping", Flag, false}};

OpDef group_normalization() {
  OpDef def;
  def.name = "GroupNormalization";
  def.doc =
      "Inputs: 0 t (N, C, ...), 1 weight (C,), 2 bias (C,). Attributes: num_groups, eps, "
      "strided_channel_grouping (default false: group of channel c is c / (C / num_groups), true: "
      "c % num_groups). Statistics in float32 per sample and group over its channels and all "
      "trailing dimensions, biased variance: y = (x - mean) / sqrt(var + eps) * weight + bias. "
      "Outputs: 0 y, 1 mean, 2 1 / sqrt(var + eps), the latter two of shape (N * num_groups,) and "
      "t's dtype.";
  def.min_inputs = def.max_inputs = 3;
  def.attributes = kGroupAttributes;
  def.infer = [](const Op& op) {
    const Tensor& t = needed_input(op, 0, "t");
    const std::int64_t groups = check_groups(op, t);
    check_channels(op, 1, "weight", t.shape()[1]);
    check_channels(op, 2, "bias", t.shape()[1]);
    const TensorInfo statistics = plain_info(t.dtype(), {t.shape()[0] * groups});
    return std::vector<TensorInfo>{t.info, statistics, statistics};
  };
  def.check_execution = needs_equal_floats;
  def.is_cheap_to_repeat = true;
  def.differentiable_inputs = {0, 1, 2};
  def.gradient = [](GradientBuilder& builder, const Op& op) {
    Tensor* g = builder.output_gradient(0);
    if (g == nullptr) return;
    Op& grad = builder.op("GroupNormalizationGrad",
                          {g, builder.forward(op.input(0)), builder.forward(op.input(1)),
                           builder.forward(op.output(1)), builder.forward(op.output(2))},
                          op.attributes);
    for (int i = 0; i < 3; ++i) {
      if (builder.wants(i)) builder.set_input_gradient(i, grad.output(i));
    }
  };
  return def;
}

OpDef group_normalization_grad() {
  OpDef def;
  def.name = "GroupNormalizationGrad";
  def.doc =
      "Inputs: 0 g, 1 t, 2 weight, 3 mean, 4 inv_std (saved by GroupNormalization). Attributes as "
      "there. With xhat = (t - mean) * inv_std and h = g * weight, per sample and group: dx = "
      "inv_std * (h - mean(h) - xhat * mean(h * xhat)). Outputs: 0 dx, 1 dweight = sum(g * xhat), "
      "2 dbias = sum(g) per channel.";
  def.min_inputs = def.max_inputs = 5;
  def.attributes = kGroupAttributes;
  def.infer = [](const Op& op) {
    const Tensor& g = needed_input(op, 0, "g");
    const Tensor& t = needed_input(op, 1, "t");
    const Tensor& weight = needed_input(op, 2, "weight");
    const Shape statistics = {t.shape()[0] * check_groups(op, t)};
    check_inputs(op, g.shape() == t.shape(), "wanted g of t's shape");
    check_channels(op, 2, "weight", t.shape()[1]);
    check_inputs(op,
                 needed_input(op, 3, "mean").shape() == statistics &&
                     needed_input(op, 4, "inv_std").shape() == statistics,
                 str_cat("wanted statistics of shape ", shape_text(statistics)));
    return std::vector<TensorInfo>{t.info, weight.info, weight.info};
  };
  def.check_execution = needs_equal_floats;
  return def;
}

}  // namespace

void register_norm_ops(Registry& registry) {
  registry.add(group_normalization());
  registry.add(group_normalization_grad());
  register_resample_ops(registry);
}

}  // namespace pando
