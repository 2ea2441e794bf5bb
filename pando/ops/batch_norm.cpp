// Batch normalisation: the form for inference, and that for training with its gradient. Kernels
// only compute statistics; the rest is pointwise and fuses with its neighbours.
#include <algorithm>

#include "pando/ops/channel_layout.hpp"
#include "pando/ops/nn_rules.hpp"
#include "pando/ops/ops.hpp"
#include "pando/ops/rules.hpp"

namespace pando {
namespace {

using enum AttributeType;

/// The shape in which a value per channel broadcasts to `t`.
Shape channel_shape(const Op& op, const Tensor& t) {
  if (is_channel_last(op)) return {channels_of(op, t.shape())};
  return axis_shape(static_cast<std::int64_t>(t.shape().size()) - 1, 0, channels_of(op, t.shape()));
}

OpDef batch_normalization() {
  OpDef def;
  def.name = "BatchNormalization";
  def.doc =
      "Inference form. Inputs: 0 t (N, C, spatial...), 1 scale, 2 bias, 3 mean, 4 var, each (C,). "
      "Attributes: epsilon, momentum (no effect), channel_last (default false: else t is (N, "
      "spatial..., C)). scale * (t - mean) / sqrt(var + epsilon) + bias.";
  def.min_inputs = def.max_inputs = 5;
  def.attributes = {
      {"epsilon", Number}, {"momentum", Number, false}, {"channel_last", Flag, false}};
  def.infer = [](const Op& op) {
    const Tensor& t = needed_input(op, 0, "t");
    check_inputs(op, t.shape().size() >= 3, "wanted data of shape (N, C, spatial...)");
    constexpr const char* kRoles[] = {"t", "scale", "bias", "mean", "var"};
    for (int i = 1; i < 5; ++i) check_channels(op, i, kRoles[i], channels_of(op, t.shape()));
    return std::vector<TensorInfo>{t.info};
  };
  def.check_execution = [](const Op& op) {
    needs_floats(op);
    for (int i = 1; i < 5; ++i) {
      check_inputs(op, op.input(i)->dtype() == op.input(0)->dtype(), "wanted inputs of one dtype");
    }
  };
  def.expand = [](OpBuilder& builder, const Op& op) -> std::vector<Tensor*> {
    Tensor* t = op.input(0);
    const Shape channel = channel_shape(op, *t);
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
  def.is_cheap_to_repeat = true;
  return def;
}

// Training.

/// Statistics are float32 for dtypes of up to four bytes.
DType statistics_dtype(const Tensor& t) {
  return dtype_bytes(t.dtype()) > 4 ? t.dtype() : DType::Float32;
}

/// Elements of each channel.
std::int64_t elements_per_channel(const Op& op, const Tensor& t) {
  return t.info.num_elements() / std::max<std::int64_t>(1, channels_of(op, t.shape()));
}

const Tensor& training_data(const Op& op, int index) {
  const Tensor& t = needed_input(op, index, "t");
  check_inputs(op, t.shape().size() >= 2,
               is_channel_last(op) ? "wanted data of shape (N, spatial..., C)"
                                   : "wanted data of shape (N, C, spatial...)");
  check_inputs(op, elements_per_channel(op, t) > 1,
               str_cat("wanted more than 1 value per channel, whose variance is the result: data "
                       "of shape ",
                       shape_text(t.shape()), " has ", elements_per_channel(op, t)));
  return t;
}

/// `t` and all given inputs are floats; those per channel from `first` on have t's dtype or that of
/// statistics.
void check_training_dtypes(const Op& op, const Tensor& t, int first) {
  needs_floats(op);
  for (int i = first; i < op.num_inputs(); ++i) {
    if (op.input(i) == nullptr) continue;
    const DType dtype = op.input(i)->dtype();
    check_inputs(op, dtype == t.dtype() || dtype == statistics_dtype(t),
                 str_cat("wanted values per channel in the dtype of t, or float32 for data of 16 "
                         "bits, not ",
                         dtype));
  }
}

Tensor* as_statistic(OpBuilder& builder, const Tensor& t, Tensor* value) {
  return builder.cast(value, statistics_dtype(t));
}

void training_gradient(GradientBuilder& builder, const Op& op) {
  Tensor* g = builder.output_gradient(0);
  Tensor* g_mean = builder.output_gradient(1);
  Tensor* g_variance = builder.output_gradient(2);
  if (builder.output_gradient(3) != nullptr) {
    throw Error(str_cat(describe(op),
                        ": output 3, the inverse deviation, has no gradient; compute "
                        "it from output 2, the variance"));
  }
  if (g == nullptr && g_mean == nullptr && g_variance == nullptr) return;
  const Tensor& t = *op.input(0);
  if (g == nullptr) g = zeros(builder, t.dtype(), t.shape());
  Op& grad =
      builder.op("BatchNormalizationTrainingGrad",
                 {g, builder.forward(op.input(0)), builder.forward(op.input(1)),
                  builder.forward(op.output(1)), builder.forward(op.output(3)), g_mean, g_variance},
                 pick_attributes(op, {"channel_last"}));
  for (int i = 0; i < 3; ++i) {
    if (builder.wants(i)) builder.set_input_gradient(i, grad.output(i));
  }
}

OpDef batch_normalization_training() {
  OpDef def;
  def.name = "BatchNormalizationTraining";
  def.doc =
      "Inputs: 0 t (N, C, spatial...), 1 scale (C,), 2 bias (C,). Attributes: epsilon, "
      "channel_last "
      "(default false: else t is (N, spatial..., C)). Statistics of each channel over all other "
      "dimensions, n > 1 elements, in float32: y = (t - mean) / sqrt(v + epsilon) * scale + bias "
      "with the biased variance v = sum((t - mean)^2) / n. Outputs: 0 y, 1 mean, 2 the unbiased "
      "variance v * n / (n - 1), 3 1 / sqrt(v + epsilon), the latter three (C,), float32 (float64 "
      "for float64).";
  def.min_inputs = def.max_inputs = 3;
  def.attributes = {{"epsilon", Number}, {"channel_last", Flag, false}};
  def.infer = [](const Op& op) {
    const Tensor& t = training_data(op, 0);
    check_channels(op, 1, "scale", channels_of(op, t.shape()));
    check_channels(op, 2, "bias", channels_of(op, t.shape()));
    const TensorInfo statistic = plain_info(statistics_dtype(t), {channels_of(op, t.shape())});
    return std::vector<TensorInfo>{t.info, statistic, statistic, statistic};
  };
  def.check_execution = [](const Op& op) { check_training_dtypes(op, *op.input(0), 1); };
  def.expand = [](OpBuilder& builder, const Op& op) -> std::vector<Tensor*> {
    Tensor* t = op.input(0);
    const Shape channel = channel_shape(op, *t);
    const Op& statistics = builder.op("BatchNormalizationStatistics", {t}, op.attributes);
    Tensor* mean = statistics.output(0);
    Tensor* factor =
        builder.make("Mul", {as_statistic(builder, *t, op.input(1)), statistics.output(2)});
    Tensor* y = builder.make("BatchNormalizationCore", {t, builder.reshape(factor, channel),
                                                        builder.reshape(op.input(2), channel),
                                                        builder.reshape(mean, channel)});
    return {y, mean, statistics.output(1), statistics.output(2)};
  };
  def.differentiable_inputs = {0, 1, 2};
  def.gradient = training_gradient;
  return def;
}

OpDef batch_normalization_statistics() {
  OpDef def;
  def.name = "BatchNormalizationStatistics";
  def.doc =
      "Internal. Input: 0 t. Attributes of BatchNormalizationTraining. Outputs: its outputs 1 to "
      "3.";
  def.attributes = {{"epsilon", Number}, {"channel_last", Flag, false}};
  def.infer = [](const Op& op) {
    const Tensor& t = training_data(op, 0);
    return std::vector<TensorInfo>(3,
                                   plain_info(statistics_dtype(t), {channels_of(op, t.shape())}));
  };
  def.check_execution = needs_floats;
  return def;
}

OpDef batch_normalization_training_grad() {
  OpDef def;
  def.name = "BatchNormalizationTrainingGrad";
  def.doc =
      "Inputs: 0 g, 1 t, 2 scale, 3 mean, 4 inv_std (outputs 1 and 3 of "
      "BatchNormalizationTraining), "
      "5 g_mean, 6 g_variance (optional gradients of its outputs 1 and 2). Attribute: "
      "channel_last. "
      "With xhat = (t - mean) * inv_std and n elements per channel: dx = scale * inv_std * (g - "
      "mean(g) - xhat * mean(g * xhat)) + g_mean / n + 2 * g_variance * (t - mean) / (n - 1). "
      "Outputs: 0 dx, 1 dscale = sum(g * xhat), 2 dbias = sum(g), both with scale's dtype.";
  def.min_inputs = 5;
  def.max_inputs = 7;
  def.attributes = {{"channel_last", Flag, false}};
  def.infer = [](const Op& op) {
    const Tensor& t = training_data(op, 1);
    check_inputs(op, needed_input(op, 0, "g").shape() == t.shape(), "wanted g of t's shape");
    constexpr const char* kRoles[] = {"g", "t", "scale", "mean", "inv_std", "g_mean", "g_variance"};
    for (int i = 2; i < op.num_inputs(); ++i) {
      if (i < 5 || op.input(i) != nullptr)
        check_channels(op, i, kRoles[i], channels_of(op, t.shape()));
    }
    return std::vector<TensorInfo>{t.info, op.input(2)->info, op.input(2)->info};
  };
  def.check_execution = [](const Op& op) {
    check_inputs(op, op.input(0)->dtype() == op.input(1)->dtype(), "wanted g of t's dtype");
    check_training_dtypes(op, *op.input(1), 2);
  };
  def.expand = [](OpBuilder& builder, const Op& op) -> std::vector<Tensor*> {
    Tensor *g = op.input(0), *t = op.input(1);
    const auto statistic = [&](int i) -> Tensor* {
      const bool given = i < op.num_inputs() && op.input(i) != nullptr;
      return given ? as_statistic(builder, *t, op.input(i)) : nullptr;
    };
    Tensor *mean = statistic(3), *inv_std = statistic(4);
    const Op& sums = builder.op("BatchNormalizationSums", {g, t, mean, inv_std}, op.attributes);
    const Op& factors = builder.op(
        "BatchNormalizationGradFactors",
        {statistic(2), inv_std, sums.output(0), sums.output(1), statistic(5), statistic(6)},
        {{"count", elements_per_channel(op, *t)}});
    std::vector<Tensor*> inputs = {g, t};
    for (Tensor* value : {mean, factors.output(0), factors.output(1), factors.output(2)}) {
      inputs.push_back(builder.reshape(value, channel_shape(op, *t)));
    }
    const DType dtype = op.input(2)->dtype();
    return {builder.make("BatchNormalizationGradCore", inputs), builder.cast(sums.output(1), dtype),
            builder.cast(sums.output(0), dtype)};
  };
  return def;
}

OpDef batch_normalization_sums() {
  OpDef def;
  def.name = "BatchNormalizationSums";
  def.doc =
      "Internal. Inputs: 0 g, 1 t, 2 mean, 3 inv_std. Attribute: channel_last. Per channel, "
      "outputs: "
      "0 sum(g), 1 sum(g * (t - mean)) * inv_std.";
  def.min_inputs = def.max_inputs = 4;
  def.attributes = {{"channel_last", Flag, false}};
  def.infer = [](const Op& op) {
    return std::vector<TensorInfo>(2, needed_input(op, 2, "mean").info);
  };
  def.check_execution = needs_floats;
  return def;
}

OpDef batch_normalization_grad_factors() {
  OpDef def;
  def.name = "BatchNormalizationGradFactors";
  def.doc =
      "Internal. Inputs per channel: 0 scale, 1 inv_std, 2 sum_g, 3 sum_g_xhat, 4 g_mean, 5 "
      "g_variance (optional). Attribute: count n. Outputs: a = scale * inv_std, b = -a * inv_std * "
      "sum_g_xhat / n + 2 * g_variance / (n - 1), c = (g_mean - a * sum_g) / n.";
  def.min_inputs = 4;
  def.max_inputs = 6;
  def.attributes = {{"count", Integer}};
  def.infer = [](const Op& op) {
    return std::vector<TensorInfo>(3, needed_input(op, 1, "inv_std").info);
  };
  def.scalar_body = [](ScalarEmitter& emitter, const Op& op, std::span<const ScalarValue> inputs) {
    using enum ScalarOp;
    const auto n = static_cast<double>(op.attributes.integer("count"));
    const LaneType lane = emitter.lane(inputs[1]);
    const auto number = [&](double value) { return emitter.constant(value, lane); };
    const ScalarValue a = emitter.emit(Mul, inputs[0], inputs[1]);
    ScalarValue b = emitter.emit(Mul, emitter.emit(Mul, a, inputs[1]),
                                 emitter.emit(Mul, inputs[3], number(-1.0 / n)));
    ScalarValue c = emitter.emit(Mul, emitter.emit(Mul, a, inputs[2]), number(-1.0 / n));
    const auto given = [&](std::size_t i) { return i < inputs.size() && inputs[i] != kNoValue; };
    if (given(4)) c = emitter.emit(Fma, inputs[4], number(1.0 / n), c);
    if (given(5)) b = emitter.emit(Fma, inputs[5], number(2.0 / (n - 1.0)), b);
    return std::vector<ScalarValue>{a, b, c};
  };
  return def;
}

OpDef batch_normalization_grad_core() {
  OpDef def;
  def.name = "BatchNormalizationGradCore";
  def.doc =
      "Internal. Inputs: 0 g, 1 t, 2 mean, 3 a, 4 b, 5 c; the latter four broadcast to t. a * g + "
      "b * (t - mean) + c.";
  def.min_inputs = def.max_inputs = 6;
  def.infer = [](const Op& op) { return std::vector<TensorInfo>{needed_input(op, 1, "t").info}; };
  def.scalar_body = [](ScalarEmitter& emitter, const Op&, std::span<const ScalarValue> inputs) {
    const LaneType lane = emitter.lane(inputs[2]);
    const auto in = [&](std::size_t i) { return emitter.convert(inputs[i], lane); };
    const ScalarValue centred = emitter.emit(ScalarOp::Sub, in(1), in(2));
    const ScalarValue rest = emitter.emit(ScalarOp::Fma, centred, in(4), in(5));
    return std::vector<ScalarValue>{emitter.emit(ScalarOp::Fma, in(0), in(3), rest)};
  };
  return def;
}

}  // namespace

void register_batch_norm_ops(Registry& registry) {
  registry.add(batch_normalization());
  registry.add(batch_normalization_scale());
  registry.add(batch_normalization_core());
  registry.add(batch_normalization_training());
  registry.add(batch_normalization_statistics());
  registry.add(batch_normalization_training_grad());
  registry.add(batch_normalization_sums());
  registry.add(batch_normalization_grad_factors());
  registry.add(batch_normalization_grad_core());
}

}  // namespace pando
