// Group, layer and batch normalisation.
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

void check_per_channel(const Op& op, int index, const char* role, const Tensor& t) {
  const Tensor& value = needed_input(op, index, role);
  check_inputs(
      op, value.shape() == Shape{t.shape()[1]},
      str_cat("wanted '", role, "' of shape ", shape_text({t.shape()[1]}), " (the channels of t)"));
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
      "c "
      "% num_groups). Statistics in float32 per sample and group over its channels and all "
      "trailing "
      "dimensions, biased variance: y = (x - mean) / sqrt(var + eps) * weight + bias. Outputs: 0 "
      "y, "
      "1 mean, 2 1 / sqrt(var + eps), the latter two of shape (N * num_groups,) and t's dtype.";
  def.min_inputs = def.max_inputs = 3;
  def.attributes = kGroupAttributes;
  def.infer = [](const Op& op) {
    const Tensor& t = needed_input(op, 0, "t");
    const std::int64_t groups = check_groups(op, t);
    check_per_channel(op, 1, "weight", t);
    check_per_channel(op, 2, "bias", t);
    const TensorInfo statistics = plain_info(t.dtype(), {t.shape()[0] * groups});
    return std::vector<TensorInfo>{t.info, statistics, statistics};
  };
  def.check_execution = needs_equal_floats;
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
      "2 "
      "dbias = sum(g) per channel.";
  def.min_inputs = def.max_inputs = 5;
  def.attributes = kGroupAttributes;
  def.infer = [](const Op& op) {
    const Tensor& g = needed_input(op, 0, "g");
    const Tensor& t = needed_input(op, 1, "t");
    const Tensor& weight = needed_input(op, 2, "weight");
    const Shape statistics = {t.shape()[0] * check_groups(op, t)};
    check_inputs(op, g.shape() == t.shape(), "wanted g of t's shape");
    check_per_channel(op, 2, "weight", t);
    check_inputs(op,
                 needed_input(op, 3, "mean").shape() == statistics &&
                     needed_input(op, 4, "inv_std").shape() == statistics,
                 str_cat("wanted statistics of shape ", shape_text(statistics)));
    return std::vector<TensorInfo>{t.info, weight.info, weight.info};
  };
  def.check_execution = needs_equal_floats;
  return def;
}

OpDef batch_normalization() {
  OpDef def;
  def.name = "BatchNormalization";
  def.doc =
      "Inference form. Inputs: 0 t (N, C, spatial...), 1 scale, 2 bias, 3 mean, 4 var, each (C,). "
      "Attributes: epsilon, momentum (no effect). scale * (t - mean) / sqrt(var + epsilon) + bias.";
  def.min_inputs = def.max_inputs = 5;
  def.attributes = {{"epsilon", Number}, {"momentum", Number, false}};
  def.infer = [](const Op& op) {
    const Tensor& t = needed_input(op, 0, "t");
    check_inputs(op, t.shape().size() >= 3, "wanted data of shape (N, C, spatial...)");
    constexpr const char* kRoles[] = {"t", "scale", "bias", "mean", "var"};
    for (int i = 1; i < 5; ++i) check_per_channel(op, i, kRoles[i], t);
    return std::vector<TensorInfo>{t.info};
  };
  def.check_execution = needs_equal_floats;
  def.expand = [](OpBuilder& builder, const Op& op) -> std::vector<Tensor*> {
    Tensor* t = op.input(0);
    const Shape channel =
        axis_shape(static_cast<std::int64_t>(t->shape().size()) - 1, 0, t->shape()[1]);
    Tensor* factor = builder.make("BatchNormalizationScale", {op.input(1), op.input(4)},
                                  pick_attributes(op, {"epsilon"}));
    return {builder.make("BatchNormalizationCore", {t, builder.reshape(factor, channel),
                                                    builder.reshape(op.input(2), channel),
                                                    builder.reshape(op.input(3), channel)})};
  };
  def.gradient_is_error = true;
  return def;
}

OpDef batch_normalization_scale() {
  OpDef def;
  def.name = "BatchNormalizationScale";
  def.doc =
      "Internal. Inputs: 0 scale, 1 var. Attributes: epsilon. scale / sqrt(var + epsilon), "
      "float32.";
  def.min_inputs = def.max_inputs = 2;
  def.attributes = {{"epsilon", Number}};
  def.infer = [](const Op& op) {
    return std::vector<TensorInfo>{
        plain_info(DType::Float32, needed_input(op, 0, "scale").shape())};
  };
  def.scalar_body = [](ScalarEmitter& emitter, const Op& op, std::span<const ScalarValue> inputs) {
    const ScalarValue scale = emitter.convert(inputs[0], LaneType::F32);
    const ScalarValue var = emitter.convert(inputs[1], LaneType::F32);
    const ScalarValue epsilon = emitter.constant(op.attributes.number("epsilon"));
    const ScalarValue root =
        emitter.emit(ScalarOp::Sqrt, emitter.emit(ScalarOp::Add, var, epsilon));
    return std::vector<ScalarValue>{emitter.emit(ScalarOp::Div, scale, root)};
  };
  return def;
}

OpDef batch_normalization_core() {
  OpDef def;
  def.name = "BatchNormalizationCore";
  def.doc =
      "Internal. Inputs: 0 t, 1 factor, 2 bias, 3 mean, which broadcast to t. (t - mean) * "
      "factor + bias.";
  def.min_inputs = def.max_inputs = 4;
  def.infer = [](const Op& op) { return std::vector<TensorInfo>{needed_input(op, 0, "t").info}; };
  def.scalar_body = [](ScalarEmitter& emitter, const Op&, std::span<const ScalarValue> inputs) {
    const LaneType lane = emitter.lane(inputs[0]);
    const auto in = [&](std::size_t i) { return emitter.convert(inputs[i], lane); };
    const ScalarValue centred = emitter.emit(ScalarOp::Sub, inputs[0], in(3));
    return std::vector<ScalarValue>{emitter.emit(ScalarOp::Fma, centred, in(1), in(2))};
  };
  return def;
}

}  // namespace

void register_norm_ops(Registry& registry) {
  registry.add(group_normalization());
  registry.add(group_normalization_grad());
  registry.add(batch_normalization());
  registry.add(batch_normalization_scale());
  registry.add(batch_normalization_core());
  register_resample_ops(registry);
}

}  // namespace pando
