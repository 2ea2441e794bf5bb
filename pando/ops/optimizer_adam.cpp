// Adam, LAMB and AdaMax updaters.
#include "pando/ops/optimizer_adam.hpp"

#include <numeric>

#include "pando/ops/nn_rules.hpp"
#include "pando/ops/rules.hpp"

namespace pando {
namespace {

using enum AttributeType;

// Inputs of AdamUpdater by index.
enum AdamInput { kWeight, kFirst, kSecond, kStep, kWeightDecay, kBeta1, kBeta2, kEpsilon };

constexpr double kDefaultEpsilon = 1e-7;

bool is_adamax(const Op& op) { return op.attributes.text("mode") == "AdaMax"; }

bool has_decay(const Op& op) {
  return op.input(kWeightDecay) != nullptr || op.attributes.number_or("weight_decay", 0.0) != 0.0;
}

void check_adam_tensors(const Op& op) {
  const Tensor& m = needed_input(op, kFirst, "acc_first_order");
  const Tensor& v = needed_input(op, kSecond, "acc_second_order");
  check_inputs(op, m.shape() == v.shape(), "wanted moments of the same shape");
  if (const Tensor* weight = op.input(kWeight)) {
    check_inputs(op, weight->shape() == m.shape(), "wanted a weight of the moments' shape");
  }
  for (int index = kStep; index <= kEpsilon; ++index) {
    const Tensor* t = op.input(index);
    check_inputs(op, t == nullptr || t->info.num_elements() == 1,
                 str_cat("wanted a tensor with one element for input ", index));
  }
}

void check_adam_options(const Op& op) {
  const std::string& mode = op.attributes.text("mode");
  const bool known = mode == "Adam" || mode == "AdamNoBias" || mode == "AdaMax" || mode == "Lamb" ||
                     mode == "LambNoBias";
  if (!known) throw ValueError(str_cat(describe(op), ": unknown updater mode '", mode, "'"));
  const auto has = [&](const char* name, int index) {
    return op.input(index) != nullptr || op.attributes.has(name);
  };
  if (is_adamax(op) && op.input(kStep) == nullptr) {
    throw ValueError("AdaMax requires time_step to not be None.");
  }
  if (has_decay(op) && op.input(kWeight) == nullptr) {
    throw ValueError("Weight decay requires weight to not be None.");
  }
  const bool betas = has("beta1", kBeta1) && (is_adamax(op) || has("beta2", kBeta2));
  if (op.input(kStep) != nullptr && !betas) {
    throw ValueError("Bias correction requires both beta1 and beta2 to not be None.");
  }
}

TensorInfo updater_info(const Tensor& m, const Tensor* weight) {
  TensorInfo info = m.info;
  if (weight != nullptr) info.dtype = weight->dtype();
  return info;
}

/// 1 - beta^step in the dtype of the moment that it corrects.
Tensor* bias_correction(OpBuilder& builder, const Op& op, Tensor* step, const char* name, int beta,
                        int moment) {
  Attributes attributes{{"dtype", op.input(moment)->dtype()}};
  if (op.input(beta) == nullptr) attributes.set("beta", op.attributes.number(name));
  return builder.reshape(builder.make("AdamBiasCorrection", {step, op.input(beta)}, attributes),
                         {});
}

std::vector<Tensor*> expand_adam_updater(OpBuilder& builder, const Op& op) {
  Tensor* first = nullptr;
  Tensor* second = nullptr;
  if (Tensor* step = op.input(kStep)) {
    Tensor* next = builder.make("AddLhsInplace", {step, builder.constant(1.0, step->dtype())});
    first = bias_correction(builder, op, next, "beta1", kBeta1, kFirst);
    if (!is_adamax(op)) second = bias_correction(builder, op, next, "beta2", kBeta2, kSecond);
  }
  return {builder.make("AdamUpdaterCore",
                       {op.input(kWeight), op.input(kFirst), op.input(kSecond), first, second,
                        op.input(kWeightDecay), op.input(kEpsilon)},
                       pick_attributes(op, {"mode", "weight_decay", "epsilon"}))};
}

OpDef adam_updater() {
  OpDef def;
  def.name = "AdamUpdater";
  def.doc =
      "Inputs: 0 weight (optional), 1 acc_first_order m, 2 acc_second_order v, 3 time_step "
      "(optional float32 scalar, incremented in place first), 4 weight_decay, 5 beta1, 6 beta2, 7 "
      "epsilon (optional scalars). Attributes: mode (Adam, AdamNoBias, AdaMax, Lamb, LambNoBias), "
      "weight_decay, beta1, beta2, epsilon (constants where the input is absent). mc = m / (1 - "
      "beta1^t), vc = v / (1 - beta2^t) with time_step, else m and v; divisor and quotient are "
      "rounded to m's or v's dtype. Output: mc / (sqrt(vc) + "
      "epsilon) + weight_decay * weight; AdaMax: mc / (v + epsilon). Shape of m, dtype of weight, "
      "without weight that of m.";
  def.min_inputs = 3;
  def.max_inputs = 8;
  def.attributes = {{"mode", Text},
                    {"weight_decay", Number, false},
                    {"beta1", Number, false},
                    {"beta2", Number, false},
                    {"epsilon", Number, false}};
  def.infer = [](const Op& op) {
    check_adam_tensors(op);
    check_adam_options(op);
    return std::vector<TensorInfo>{updater_info(*op.input(kFirst), op.input(kWeight))};
  };
  def.check_execution = needs_floats;
  def.modified_inputs = [](const Op& op) {
    return op.input(kStep) != nullptr ? InputSet{kStep} : InputSet();
  };
  def.expand = expand_adam_updater;
  return def;
}

OpDef adam_bias_correction() {
  OpDef def;
  def.name = "AdamBiasCorrection";
  def.doc =
      "Internal. Inputs: 0 step, 1 beta (optional). Attributes: beta (constant where the input is "
      "absent), dtype. 1 - beta^step in that dtype. Evaluated in float64 on the float32 value of "
      "beta: 1 - 0.999^t cancels.";
  def.min_inputs = 1;
  def.max_inputs = 2;
  def.attributes = {{"beta", Number, false}, {"dtype", DTypeName}};
  def.infer = [](const Op& op) {
    return std::vector<TensorInfo>{
        plain_info(op.attributes.dtype("dtype"), needed_input(op, 0, "step").shape())};
  };
  def.scalar_body = [](ScalarEmitter& emitter, const Op& op, std::span<const ScalarValue> inputs) {
    const LaneType lane = LaneType::F64;
    const ScalarValue step = emitter.convert(inputs[0], lane);
    const ScalarValue beta =
        op.input(1) != nullptr
            ? emitter.convert(inputs[1], lane)
            : emitter.constant(static_cast<float>(op.attributes.number("beta")), lane);
    const ScalarValue one = emitter.constant(1.0, lane);
    const ScalarValue power = emitter.emit(ScalarOp::Pow, beta, step);
    return std::vector<ScalarValue>{emitter.emit(ScalarOp::Sub, one, power)};
  };
  return def;
}

// Inputs of AdamUpdaterCore by index.
enum CoreInput {
  kCoreWeight,
  kCoreFirst,
  kCoreSecond,
  kFirstDivisor,
  kSecondDivisor,
  kCoreDecay,
  kCoreEpsilon
};

/// Input `moment`, divided by input `divisor` if there is one, in its own dtype.
ScalarValue corrected_moment(ScalarEmitter& emitter, const Op& op,
                             std::span<const ScalarValue> inputs, int moment, int divisor) {
  const ScalarValue value = inputs[static_cast<std::size_t>(moment)];
  if (op.input(divisor) == nullptr) return value;
  const ScalarValue by =
      emitter.convert(inputs[static_cast<std::size_t>(divisor)], emitter.lane(value));
  return emitter.as_dtype(emitter.emit(ScalarOp::Div, value, by), op.input(moment)->dtype());
}

std::vector<ScalarValue> adam_core_body(ScalarEmitter& emitter, const Op& op,
                                        std::span<const ScalarValue> inputs) {
  const DType first_dtype = op.input(kCoreFirst)->dtype();
  const DType second_dtype = op.input(kCoreSecond)->dtype();
  const LaneType lane = lane_of(second_dtype);
  const auto in = [&](int index) {
    return emitter.convert(inputs[static_cast<std::size_t>(index)], lane);
  };
  ScalarValue first =
      emitter.convert(corrected_moment(emitter, op, inputs, kCoreFirst, kFirstDivisor), lane);
  if (dtype_bytes(second_dtype) < dtype_bytes(first_dtype)) {
    first = emitter.as_dtype(first, second_dtype);
  }
  const ScalarValue epsilon =
      number_or_input(emitter, op, "epsilon", inputs, kCoreEpsilon, kDefaultEpsilon, lane);
  ScalarValue size = corrected_moment(emitter, op, inputs, kCoreSecond, kSecondDivisor);
  if (!is_adamax(op)) size = emitter.emit(ScalarOp::Sqrt, size);
  const ScalarValue denominator = emitter.emit(ScalarOp::Add, size, epsilon);
  ScalarValue result = emitter.emit(ScalarOp::Div, first, denominator);
  const bool decays =
      op.input(kCoreDecay) != nullptr || op.attributes.number_or("weight_decay", 0.0) != 0.0;
  if (decays) {
    const ScalarValue decay =
        number_or_input(emitter, op, "weight_decay", inputs, kCoreDecay, 0.0, lane);
    result = emitter.emit(ScalarOp::Fma, decay, in(kCoreWeight), result);
  }
  return {emitter.convert(result, lane_of(op.output(0)->dtype()))};
}

OpDef adam_updater_core() {
  OpDef def;
  def.name = "AdamUpdaterCore";
  def.doc =
      "Internal, pointwise part of AdamUpdater. Inputs: 0 weight (optional), 1 m, 2 v, 3 d1 = "
      "1 - beta1^t, 4 d2 = 1 - beta2^t, 5 weight_decay, 6 epsilon (all optional scalars). "
      "Attributes: mode, weight_decay, epsilon. (m/d1) / (sqrt(v/d2) + epsilon) + "
      "weight_decay*weight; AdaMax: (m/d1) / (v + epsilon). Quotients are rounded to m's and v's "
      "dtype.";
  def.min_inputs = 3;
  def.max_inputs = 7;
  def.attributes = {{"mode", Text}, {"weight_decay", Number, false}, {"epsilon", Number, false}};
  def.infer = [](const Op& op) {
    needed_input(op, kCoreSecond, "acc_second_order");
    return std::vector<TensorInfo>{
        updater_info(needed_input(op, kCoreFirst, "acc_first_order"), op.input(kCoreWeight))};
  };
  def.scalar_body = adam_core_body;
  return def;
}

// Inputs of AdamVarUpdate by index.
enum VarUpdateInput { kTarget, kUpdate, kTargetNorm, kUpdateNorm, kLearningRate, kMaxNorm };

std::vector<Tensor*> expand_adam_var_update(OpBuilder& builder, const Op& op) {
  Tensor* scale = builder.make(
      "LambScale",
      {builder.reshape(op.input(kTargetNorm), {}), builder.reshape(op.input(kUpdateNorm), {}),
       op.input(kLearningRate), op.input(kMaxNorm)},
      pick_attributes(op, {"learning_rate", "max_weight_norm"}));
  return {builder.make("ScaledAddLhsInplace", {op.input(kTarget), op.input(kUpdate), nullptr,
                                               builder.reshape(scale, {})})};
}

OpDef adam_var_update() {
  OpDef def;
  def.name = "AdamVarUpdate";
  def.doc =
      "Updates input 0 in place: t -= learning_rate * ratio * x, ratio = min(sqrt(r1), "
      "max_weight_norm) / sqrt(r2), 1 where r1 or r2 (or a tensor max_weight_norm) is 0. Inputs: 0 "
      "t, 1 x, 2 r1, 3 r2 (squared L2 norms), 4 learning_rate, 5 max_weight_norm (optional "
      "scalars). Attributes: learning_rate, max_weight_norm (constants where the input is absent; "
      "no max_weight_norm: no clipping).";
  def.min_inputs = 4;
  def.max_inputs = 6;
  def.attributes = {{"learning_rate", Number, false}, {"max_weight_norm", Number, false}};
  def.infer = [](const Op& op) {
    const Tensor& t = needed_input(op, kTarget, "t");
    const Tensor& x = needed_input(op, kUpdate, "x");
    check_inputs(op, t.shape() == x.shape(), "wanted t and x of the same shape");
    for (int index = kTargetNorm; index <= kMaxNorm; ++index) {
      if (index <= kUpdateNorm) needed_input(op, index, index == kTargetNorm ? "r1" : "r2");
      const Tensor* scalar = op.input(index);
      check_inputs(op, scalar == nullptr || scalar->info.num_elements() == 1,
                   str_cat("wanted a tensor with one element for input ", index));
    }
    return std::vector<TensorInfo>{t.info};
  };
  def.check_execution = [](const Op& op) {
    require_float(op, kTarget);
    needs_arithmetic(op);
    check_inputs(op, op.input(kLearningRate) != nullptr || op.attributes.has("learning_rate"),
                 "wanted a learning_rate: it has no default");
    if (op.input(kMaxNorm) == nullptr && op.attributes.number_or("max_weight_norm", 1.0) == 0.0) {
      throw LoweringError(
          str_cat(describe(op), ": a constant max_weight_norm of 0 is not possible"));
    }
  };
  def.modified_inputs = modifies_first;
  def.output_alias = aliases_first;
  def.expand = expand_adam_var_update;
  return def;
}

OpDef lamb_scale() {
  OpDef def;
  def.name = "LambScale";
  def.doc =
      "Internal. Inputs: 0 r1, 1 r2, 2 learning_rate, 3 max_weight_norm (optional). Attributes: "
      "learning_rate, max_weight_norm. -learning_rate * ratio of AdamVarUpdate, float32 scalar.";
  def.min_inputs = 2;
  def.max_inputs = 4;
  def.attributes = {{"learning_rate", Number, false}, {"max_weight_norm", Number, false}};
  def.infer = [](const Op& op) {
    Shape shape = needed_input(op, 0, "r1").shape();
    for (int index = 2; index <= 3; ++index) {
      if (op.input(index) != nullptr) shape = *broadcast_shapes(shape, op.input(index)->shape());
    }
    return std::vector<TensorInfo>{plain_info(DType::Float32, shape)};
  };
  def.scalar_body = [](ScalarEmitter& emitter, const Op& op, std::span<const ScalarValue> inputs) {
    const LaneType lane = LaneType::F32;
    const ScalarValue zero = emitter.constant(0.0);
    const ScalarValue r1 = emitter.convert(inputs[0], lane);
    const ScalarValue r2 = emitter.convert(inputs[1], lane);
    ScalarValue norm = emitter.emit(ScalarOp::Sqrt, r1);
    ScalarValue degenerate = emitter.emit(ScalarOp::Or, emitter.emit(ScalarOp::Equal, r1, zero),
                                          emitter.emit(ScalarOp::Equal, r2, zero));
    if (op.input(3) != nullptr || op.attributes.has("max_weight_norm")) {
      const ScalarValue limit =
          number_or_input(emitter, op, "max_weight_norm", inputs, 3, 0.0, lane);
      norm = emitter.emit(ScalarOp::Min, norm, limit);
      degenerate =
          emitter.emit(ScalarOp::Or, degenerate, emitter.emit(ScalarOp::Equal, limit, zero));
    }
    const ScalarValue quotient =
        emitter.emit(ScalarOp::Div, norm, emitter.emit(ScalarOp::Sqrt, r2));
    const ScalarValue ratio =
        emitter.emit(ScalarOp::Select, degenerate, emitter.constant(1.0), quotient);
    const ScalarValue rate = number_or_input(emitter, op, "learning_rate", inputs, 2, 0.0, lane);
    return std::vector<ScalarValue>{
        emitter.emit(ScalarOp::Neg, emitter.emit(ScalarOp::Mul, rate, ratio))};
  };
  return def;
}

OpDef lamb_square() {
  OpDef def;
  def.name = "LambSquare";
  def.doc =
      "Inputs: 0 t (float). Sum of squares in float32; float32 scalar. The sum of a shard is over "
      "all shards.";
  def.infer = [](const Op& op) {
    needed_input(op, 0, "t");
    return std::vector<TensorInfo>{plain_info(DType::Float32, {})};
  };
  def.check_execution = needs_floats;
  def.expand = [](OpBuilder& builder, const Op& op) -> std::vector<Tensor*> {
    Tensor* t = op.input(0);
    Ints axes(t->shape().size());
    std::iota(axes.begin(), axes.end(), 0);
    Tensor* sum = builder.make("ReduceSumSquare", {builder.cast(t, DType::Float32)},
                               {{"axes", axes}, {"keepdims", false}});
    const std::int64_t replicas = op.graph().ir().replication_factor;
    if (t->info.meta_shape.empty() || replicas == 1) return {sum};
    const std::int64_t whole = num_elements(t->info.meta_shape);
    if ((whole + replicas - 1) / replicas != t->info.num_elements()) {
      throw NotSupported(str_cat(describe(op), ": the sum over the shards of ", info_text(t->info),
                                 " is supported only where all ", replicas,
                                 " replicas hold one each"));
    }
    return {builder.make(
        "ReplicatedAllReduce", {sum},
        {{"op", std::string("add")}, {"stride", std::int64_t{1}}, {"group_size", replicas}})};
  };
  return def;
}

}  // namespace

void register_adam_ops(Registry& registry) {
  registry.add(adam_updater());
  registry.add(adam_bias_correction());
  registry.add(adam_updater_core());
  registry.add(adam_var_update());
  registry.add(lamb_scale());
  registry.add(lamb_square());
}

}  // namespace pando
