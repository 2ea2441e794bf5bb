// Random ops are pure functions of seed, kind, shape and parameters.
//
// A public op takes the seed tensor (2,); its expansion splits the seed into two scalar keys and
// hands them to an internal pointwise kind, which numbers its elements with Iota and draws with
// Philox (base/philox.hpp). Such a kind must run over exactly its own output shape.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "pando/base/philox.hpp"
#include "pando/ops/joins.hpp"
#include "pando/ops/nn_rules.hpp"
#include "pando/ops/ops.hpp"
#include "pando/ops/rules.hpp"

namespace pando {
namespace {

using enum AttributeType;

void check_seed(const Op& op, int index) {
  const Tensor& seed = needed_input(op, index, "seed");
  check_inputs(op, seed.shape() == Shape{2} && seed.dtype() == DType::UInt32,
               "seed Tensor must be shape=(2,) dtype=uint32");
}

void check_keys(const Op& op, int first) {
  for (int i = first; i < first + 2; ++i) {
    const Tensor& key = needed_input(op, i, "key");
    check_inputs(op, key.shape().empty() && key.dtype() == DType::UInt32,
                 "wanted scalar uint32 keys");
  }
}

/// The two words of a seed as scalars.
std::pair<Tensor*, Tensor*> keys_of(OpBuilder& builder, Tensor* seed) {
  return {builder.reshape(slice_axis(builder, seed, 0, 0, 1), {}),
          builder.reshape(slice_axis(builder, seed, 0, 1, 1), {})};
}

ScalarValue draw(ScalarEmitter& emitter, ScalarValue key0, ScalarValue key1, ScalarValue index,
                 PhiloxStream stream) {
  return emitter.philox(key0, key1, index, static_cast<int>(stream));
}

/// Bits (I32, 0 or 1) that are 1 with probability 1 - p, in steps of 2^-32.
ScalarValue keep_bit(ScalarEmitter& emitter, ScalarValue key0, ScalarValue key1, double p,
                     PhiloxStream stream) {
  const double scaled = std::round(p * 0x1p32);
  const auto threshold = static_cast<std::int64_t>(std::clamp(scaled, 0.0, 0x1p32 - 1.0));
  const ScalarValue word = draw(emitter, key0, key1, emitter.iota(), stream);
  // With the sign bit flipped, signed numbers have the order of unsigned ones: more targets compare
  // those in vectors.
  constexpr std::int64_t kSign = std::int64_t{1} << 31;
  const ScalarValue flipped =
      emitter.emit(ScalarOp::Xor, word, emitter.integer_constant(kSign, LaneType::U32));
  return emitter.emit(ScalarOp::LessEqual,
                      emitter.integer_constant(threshold - kSign, LaneType::I32),
                      emitter.convert(flipped, LaneType::I32));
}

float keep_scale(double p) { return 1.0f / (1.0f - static_cast<float>(p)); }

/// The drop probability; [0, 1), so that the scale is finite.
double drop_probability(const Op& op, const char* name) {
  const double p = op.attributes.number(name);
  if (!(p >= 0.0 && p < 1.0)) {
    throw ValueError(str_cat(describe(op), ": wanted 0 <= ", name, " < 1, not ", p));
  }
  return p;
}

/// The top 24 bits of a word as a float32: word / 2^32 rounded down to a multiple of 2^-24, plus
/// `offset` steps.
ScalarValue unit_interval(ScalarEmitter& emitter, ScalarValue word, double offset) {
  const ScalarValue mask = emitter.integer_constant(0xFFFFFF00, LaneType::U32);
  const ScalarValue top = emitter.convert(emitter.emit(ScalarOp::And, word, mask), LaneType::F32);
  return emitter.emit(ScalarOp::Fma, top, emitter.constant(0x1p-32),
                      emitter.constant(offset * 0x1p-24));
}

// Dropout

OpDef dropout() {
  OpDef def;
  def.name = "Dropout";
  def.doc =
      "Inputs: 0 t (float), 1 seed (2,) uint32. Attributes: p. Each element is 0 with probability "
      "p, else t / (1 - p). The gradient is Dropout of g with the same seed: the same mask.";
  def.min_inputs = def.max_inputs = 2;
  def.attributes = {{"p", Number}};
  def.infer = [](const Op& op) {
    const Tensor& t = needed_input(op, 0, "t");
    check_seed(op, 1);
    drop_probability(op, "p");
    return std::vector<TensorInfo>{t.info};
  };
  def.check_execution = [](const Op& op) { require_float(op, 0); };
  def.expand = [](OpBuilder& builder, const Op& op) -> std::vector<Tensor*> {
    if (op.attributes.number("p") == 0.0) return {builder.make("Identity", {op.input(0)})};
    const auto [key0, key1] = keys_of(builder, op.input(1));
    return {builder.make("DropoutCore", {op.input(0), key0, key1}, op.attributes)};
  };
  def.differentiable_inputs = {0};
  def.gradient = [](GradientBuilder& builder, const Op& op) {
    Tensor* g = builder.output_gradient(0);
    if (g == nullptr || !builder.wants(0)) return;
    builder.set_input_gradient(
        0, builder.make("Dropout", {g, builder.forward(op.input(1))}, op.attributes));
  };
  return def;
}

OpDef dropout_core() {
  OpDef def;
  def.name = "DropoutCore";
  def.doc =
      "Internal, pointwise Dropout. Inputs: 0 t, 1 and 2 the words of the seed. Attributes: p.";
  def.min_inputs = def.max_inputs = 3;
  def.attributes = {{"p", Number}};
  def.infer = [](const Op& op) {
    check_keys(op, 1);
    return std::vector<TensorInfo>{needed_input(op, 0, "t").info};
  };
  def.scalar_body = [](ScalarEmitter& emitter, const Op& op, std::span<const ScalarValue> inputs) {
    const double p = op.attributes.number("p");
    const ScalarValue keep = keep_bit(emitter, inputs[1], inputs[2], p, PhiloxStream::Dropout);
    const ScalarValue scaled =
        emitter.emit(ScalarOp::Mul, inputs[0], emitter.constant_like(keep_scale(p), inputs[0]));
    return std::vector<ScalarValue>{
        emitter.emit(ScalarOp::Select, keep, scaled, emitter.constant_like(0.0, scaled))};
  };
  return def;
}

OpDef shaped_dropout() {
  OpDef def;
  def.name = "ShapedDropout";
  def.doc =
      "Inputs: 0 t (float), 1 seed (2,) uint32. Attributes: shape, ratio. One mask of shape, "
      "broadcast against t: 0 with probability ratio, else t / (1 - ratio). Its gradient is "
      "ShapedDropout of g with the same seed.";
  def.min_inputs = def.max_inputs = 2;
  def.attributes = {{"shape", IntList}, {"ratio", Number}};
  def.infer = [](const Op& op) {
    const Tensor& t = needed_input(op, 0, "t");
    check_seed(op, 1);
    drop_probability(op, "ratio");
    const Shape& mask = op.attributes.ints("shape");
    check_inputs(op, broadcast_shapes(t.shape(), mask) == t.shape(),
                 str_cat("wanted a mask shape that broadcasts to t, not ", shape_text(mask)));
    return std::vector<TensorInfo>{t.info};
  };
  def.check_execution = [](const Op& op) { require_float(op, 0); };
  def.expand = [](OpBuilder& builder, const Op& op) -> std::vector<Tensor*> {
    const auto [key0, key1] = keys_of(builder, op.input(1));
    Tensor* t = op.input(0);
    Tensor* mask = builder.make("DropoutMask", {key0, key1}, op.attributes);
    Tensor* scale = builder.constant(keep_scale(op.attributes.number("ratio")), DType::Float32);
    Tensor* scaled = builder.make("ScaleByScalar", {t, scale});
    return {builder.make("Where", {mask, scaled, builder.constant(0.0, t->dtype())})};
  };
  def.differentiable_inputs = {0};
  def.gradient = [](GradientBuilder& builder, const Op& op) {
    Tensor* g = builder.output_gradient(0);
    if (g == nullptr || !builder.wants(0)) return;
    builder.set_input_gradient(
        0, builder.make("ShapedDropout", {g, builder.forward(op.input(1))}, op.attributes));
  };
  return def;
}

OpDef dropout_mask() {
  OpDef def;
  def.name = "DropoutMask";
  def.doc =
      "Internal. Inputs: 0 and 1 the words of a seed. Attributes: shape, ratio. Bool tensor of "
      "shape, false with probability ratio.";
  def.min_inputs = def.max_inputs = 2;
  def.attributes = {{"shape", IntList}, {"ratio", Number}};
  def.infer = [](const Op& op) {
    check_keys(op, 0);
    return std::vector<TensorInfo>{plain_info(DType::Bool, op.attributes.ints("shape"))};
  };
  def.scalar_body = [](ScalarEmitter& emitter, const Op& op, std::span<const ScalarValue> inputs) {
    return std::vector<ScalarValue>{keep_bit(
        emitter, inputs[0], inputs[1], op.attributes.number("ratio"), PhiloxStream::ShapedDropout)};
  };
  return def;
}

// Distributions

/// dtype (float16, bfloat16 or float32) and shape of a random tensor; `keys`: of the internal kind.
std::vector<TensorInfo> infer_random(const Op& op, bool keys) {
  if (keys) {
    check_keys(op, 0);
  } else {
    check_seed(op, 0);
  }
  return {plain_info(op.attributes.dtype("dtype"), op.attributes.ints("shape"))};
}

void needs_drawn_dtype(const Op& op) {
  const DType dtype = op.attributes.dtype("dtype");
  check_inputs(op, is_half_or_single_precision(dtype),
               str_cat("wanted dtype float16, bfloat16 or float32, not ", dtype));
}

/// The public kind `name` (seed tensor), which expands to `<name>Core`.
OpDef random_op(const std::string& name, const std::string& doc,
                std::vector<AttributeSpec> parameters) {
  OpDef def;
  def.name = name;
  def.doc =
      "Inputs: 0 seed (2,) uint32. Attributes: shape, dtype (float16, bfloat16, float32), " + doc;
  def.attributes = {{"shape", IntList}, {"dtype", DTypeName}};
  def.attributes.insert(def.attributes.end(), parameters.begin(), parameters.end());
  def.infer = [](const Op& op) { return infer_random(op, false); };
  def.check_execution = needs_drawn_dtype;
  def.expand = [](OpBuilder& builder, const Op& op) -> std::vector<Tensor*> {
    const auto [key0, key1] = keys_of(builder, op.input(0));
    return {builder.make(op.kind_name() + "Core", {key0, key1}, op.attributes)};
  };
  return def;
}

/// The pointwise kind behind `public_def`.
OpDef random_core(const OpDef& public_def, decltype(OpDef::scalar_body) body) {
  OpDef def;
  def.name = public_def.name + "Core";
  def.doc = str_cat("Internal, pointwise ", public_def.name,
                    ". Inputs: 0 and 1 the words of the seed. Attributes as there.");
  def.min_inputs = def.max_inputs = 2;
  def.attributes = public_def.attributes;
  def.infer = [](const Op& op) { return infer_random(op, true); };
  def.scalar_body = std::move(body);
  return def;
}

/// The largest value of `dtype` (float16, bfloat16 or float32) below `limit`.
double largest_below(double limit, DType dtype) {
  const float below =
      std::nextafter(static_cast<float>(limit), -std::numeric_limits<float>::infinity());
  if (dtype == DType::Float32) return below;
  // float16: 11 significant bits, exponents down to -14; bfloat16: 8 and -126.
  const int bits = dtype == DType::Float16 ? 11 : 8, lowest = dtype == DType::Float16 ? -14 : -126;
  int exponent = 0;
  std::frexp(below, &exponent);
  const double step = std::ldexp(1.0, std::max(exponent - 1, lowest) - (bits - 1));
  return std::floor(static_cast<double>(below) / step) * step;
}

std::vector<ScalarValue> uniform_body(ScalarEmitter& emitter, const Op& op,
                                      std::span<const ScalarValue> inputs) {
  const double low = op.attributes.number("low");
  const double high = op.attributes.number("high");
  const ScalarValue word =
      draw(emitter, inputs[0], inputs[1], emitter.iota(), PhiloxStream::Uniform);
  const ScalarValue unit = unit_interval(emitter, word, 0.0);
  const ScalarValue value =
      emitter.emit(ScalarOp::Fma, unit, emitter.constant(high - low), emitter.constant(low));
  if (!(low < high)) return {value};
  // Rounding must not reach the open end.
  const double last = std::max(low, largest_below(high, op.attributes.dtype("dtype")));
  return {emitter.emit(ScalarOp::Min, value, emitter.constant(last))};
}

/// Box and Muller: sqrt(-2 ln u1) cos(2 pi u2) with u1 in (0, 1].
std::vector<ScalarValue> normal_body(ScalarEmitter& emitter, const Op& op,
                                     std::span<const ScalarValue> inputs) {
  const ScalarValue index = emitter.iota();
  const ScalarValue u1 = unit_interval(
      emitter, draw(emitter, inputs[0], inputs[1], index, PhiloxStream::NormalRadius), 1.0);
  const ScalarValue u2 = unit_interval(
      emitter, draw(emitter, inputs[0], inputs[1], index, PhiloxStream::NormalAngle), 0.0);
  const ScalarValue radius = emitter.emit(
      ScalarOp::Sqrt,
      emitter.emit(ScalarOp::Mul, emitter.constant(-2.0), emitter.emit(ScalarOp::Log, u1)));
  const ScalarValue angle =
      emitter.emit(ScalarOp::Mul, u2, emitter.constant(2.0 * std::numbers::pi));
  const ScalarValue normal =
      emitter.emit(ScalarOp::Mul, radius, emitter.emit(ScalarOp::Cos, angle));
  return {emitter.emit(ScalarOp::Fma, normal, emitter.constant(op.attributes.number("std")),
                       emitter.constant(op.attributes.number("mean")))};
}

// Seeds

OpDef modify_random_seed() {
  OpDef def;
  def.name = "ModifyRandomSeed";
  def.doc =
      "Inputs: 0 seed (2,) uint32, 1 modifier (uint32 scalar). [seed[0], a fresh uniform word "
      "drawn "
      "with key (seed[0], seed[1] + modifier)].";
  def.min_inputs = def.max_inputs = 2;
  def.infer = [](const Op& op) {
    check_seed(op, 0);
    const Tensor& modifier = needed_input(op, 1, "modifier");
    check_inputs(op, modifier.info.num_elements() == 1 && modifier.dtype() == DType::UInt32,
                 "wanted a uint32 modifier with one element");
    return std::vector<TensorInfo>{plain_info(DType::UInt32, {2})};
  };
  def.expand = [](OpBuilder& builder, const Op& op) -> std::vector<Tensor*> {
    const auto [key0, key1] = keys_of(builder, op.input(0));
    return {builder.make("ModifyRandomSeedCore", {key0, key1, builder.reshape(op.input(1), {})})};
  };
  return def;
}

OpDef modify_random_seed_core() {
  OpDef def;
  def.name = "ModifyRandomSeedCore";
  def.doc =
      "Internal, pointwise ModifyRandomSeed. Inputs: 0 and 1 the words of the seed, 2 the "
      "modifier.";
  def.min_inputs = def.max_inputs = 3;
  def.infer = [](const Op& op) {
    check_keys(op, 0);
    return std::vector<TensorInfo>{plain_info(DType::UInt32, {2})};
  };
  def.scalar_body = [](ScalarEmitter& emitter, const Op&, std::span<const ScalarValue> inputs) {
    const ScalarValue key1 = emitter.emit(ScalarOp::Add, inputs[1], inputs[2]);
    const ScalarValue zero = emitter.integer_constant(0, LaneType::U32);
    const ScalarValue word = draw(emitter, inputs[0], key1, zero, PhiloxStream::ModifySeed);
    const ScalarValue first = emitter.emit(ScalarOp::Equal, emitter.iota(), zero);
    return std::vector<ScalarValue>{emitter.emit(ScalarOp::Select, first, inputs[0], word)};
  };
  return def;
}

OpDef scale_by_scalar() {
  OpDef def;
  def.name = "ScaleByScalar";
  def.doc =
      "Internal. Inputs: 0 t (float), 1 scale (float scalar of any dtype). t * scale rounded "
      "once to t's dtype.";
  def.min_inputs = def.max_inputs = 2;
  def.infer = [](const Op& op) { return std::vector<TensorInfo>{needed_input(op, 0, "t").info}; };
  def.scalar_body = [](ScalarEmitter& emitter, const Op&, std::span<const ScalarValue> inputs) {
    const ScalarValue scale = emitter.convert(inputs[1], emitter.lane(inputs[0]));
    return std::vector<ScalarValue>{emitter.emit(ScalarOp::Mul, inputs[0], scale)};
  };
  return def;
}

}  // namespace

void register_random_ops(Registry& registry) {
  registry.add(dropout());
  registry.add(dropout_core());
  registry.add(shaped_dropout());
  registry.add(dropout_mask());
  registry.add(scale_by_scalar());
  const OpDef uniform = random_op("RandomUniform", "low, high. Uniform in [low, high).",
                                  {{"low", Number}, {"high", Number}});
  const OpDef normal = random_op("RandomNormal", "mean, std. Normally distributed.",
                                 {{"mean", Number}, {"std", Number}});
  registry.add(uniform);
  registry.add(random_core(uniform, uniform_body));
  registry.add(normal);
  registry.add(random_core(normal, normal_body));
  registry.add(modify_random_seed());
  registry.add(modify_random_seed_core());
}

}  // namespace pando
