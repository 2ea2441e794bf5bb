// In-place variable updates, and scaled_add.
//
// Rounding: the plain additions are one fused multiply-add in float32 (or wider), rounded once when
// stored. Moving averages and square forms work in the accumulator's dtype: the input is converted
// first and every step is rounded.
#include <algorithm>
#include <array>
#include <cmath>

#include "pando/base/half.hpp"
#include "pando/ops/nn_rules.hpp"
#include "pando/ops/ops.hpp"
#include "pando/ops/optimizer_adam.hpp"
#include "pando/ops/rules.hpp"

namespace pando {
namespace {

using enum AttributeType;

constexpr std::array<std::string_view, 9> kAccumulationTypes = {
    "Add",           "DampenedAdd",         "DampenedAddSquare", "DecayAdd", "DecayAddSquare",
    "MovingAverage", "MovingAverageSquare", "Infinity",          "Mean"};

TensorInfo check_update(const Op& op) {
  const Tensor& t = needed_input(op, 0, "t");
  const Tensor& x = needed_input(op, 1, "X");
  check_inputs(op, t.shape() == x.shape(), "wanted t and X of the same shape");
  return t.info;
}

void check_scalar(const Op& op, int index, const char* role) {
  const Tensor* t = op.input(index);
  check_inputs(op, t == nullptr || t->info.num_elements() == 1,
               str_cat("wanted a tensor with one element for '", role, "'"));
}

/// The lane in which input 0 is updated: integers in float64 when a fraction may take part.
LaneType update_lane(const Op& op, std::initializer_list<const char*> factors) {
  const LaneType lane = lane_of(op.input(0)->dtype());
  if (is_floating_point(op.input(0)->dtype())) return lane;
  const auto& inputs = op.inputs();
  const bool whole = std::none_of(inputs.begin(), inputs.end(), [](const Tensor* t) {
    return t != nullptr && is_floating_point(t->dtype());
  });
  const bool scales = std::any_of(factors.begin(), factors.end(), [&](const char* name) {
    const double factor = op.attributes.number_or(name, 1.0);
    return factor != std::trunc(factor);
  });
  return whole && !scales ? lane : LaneType::F64;
}

/// Emits arithmetic in one dtype, rounding every result to it.
class DTypeArithmetic {
 public:
  DTypeArithmetic(ScalarEmitter& emitter, DType dtype) : emitter_(emitter), dtype_(dtype) {}

  ScalarValue input(ScalarValue value, DType dtype) {
    return dtype == dtype_ ? value : emitter_.as_dtype(value, dtype_);
  }
  ScalarValue constant(float value) {
    const bool is_half = is_half_precision(dtype_);
    const float rounded = is_half ? rounded_to_half_precision(value, dtype_) : value;
    return emitter_.constant(rounded, lane_of(dtype_));
  }
  ScalarValue rounded(ScalarValue value) { return emitter_.as_dtype(value, dtype_); }
  ScalarValue multiply(ScalarValue a, ScalarValue b) {
    return rounded(emitter_.emit(ScalarOp::Mul, a, b));
  }

 private:
  ScalarEmitter& emitter_;
  DType dtype_;
};

/// The factor in t's dtype; with `complement` 1 - factor. The difference is taken in float32 and
/// then converted, because the factor itself may round to 1 in t's dtype.
ScalarValue stepwise_factor(ScalarEmitter& emitter, DTypeArithmetic& in_dtype, const Op& op,
                            std::span<const ScalarValue> inputs, bool complement) {
  if (op.input(2) == nullptr) {
    const float factor = static_cast<float>(op.attributes.number("factor"));
    return in_dtype.constant(complement ? 1.0f - factor : factor);
  }
  const ScalarValue factor = emitter.convert(inputs[2], LaneType::F32);
  if (!complement) return in_dtype.rounded(factor);
  return in_dtype.rounded(emitter.emit(ScalarOp::Sub, emitter.constant(1.0), factor));
}

ScalarValue plain_accumulate(ScalarEmitter& emitter, const Op& op,
                             std::span<const ScalarValue> inputs) {
  const std::string& type = op.attributes.text("type");
  const LaneType lane = update_lane(op, {"factor"});
  const ScalarValue t = emitter.convert(inputs[0], lane);
  const ScalarValue x = emitter.convert(inputs[1], lane);
  if (type == "Mean") {
    const ScalarValue one = emitter.constant(1.0, lane);
    const ScalarValue step = emitter.convert(inputs[2], lane);
    const ScalarValue b = emitter.emit(ScalarOp::Div, one, emitter.emit(ScalarOp::Add, step, one));
    const ScalarValue kept = emitter.emit(ScalarOp::Mul, emitter.emit(ScalarOp::Sub, one, b), t);
    return emitter.emit(ScalarOp::Fma, b, x, kept);
  }
  const bool has_factor = op.input(2) != nullptr || op.attributes.number_or("factor", 1.0) != 1.0;
  if (!has_factor) return emitter.emit(ScalarOp::Add, t, x);
  const ScalarValue factor =
      op.input(2) != nullptr
          ? emitter.convert(inputs[2], lane)
          : emitter.constant(static_cast<float>(op.attributes.number("factor")), lane);
  if (type == "DecayAdd") return emitter.emit(ScalarOp::Fma, factor, t, x);
  return emitter.emit(ScalarOp::Fma, factor, x, t);  // DampenedAdd
}

/// The forms that round every step to t's dtype.
ScalarValue stepwise_accumulate(ScalarEmitter& emitter, const Op& op,
                                std::span<const ScalarValue> inputs) {
  const std::string& type = op.attributes.text("type");
  const DType dtype = op.input(0)->dtype();
  DTypeArithmetic in_dtype(emitter, dtype);
  const ScalarValue t = inputs[0];
  const ScalarValue x = in_dtype.input(inputs[1], op.input(1)->dtype());
  const ScalarValue factor = stepwise_factor(emitter, in_dtype, op, inputs, false);
  if (type == "DampenedAddSquare") {
    const ScalarValue scaled = in_dtype.multiply(factor, x);
    return emitter.emit(ScalarOp::Add, t, in_dtype.multiply(scaled, x));
  }
  const ScalarValue kept = in_dtype.multiply(factor, t);
  if (type == "Infinity") {
    return emitter.emit(ScalarOp::Max, kept, emitter.emit(ScalarOp::Abs, x));
  }
  if (type == "DecayAddSquare") {
    return emitter.emit(ScalarOp::Add, kept, in_dtype.multiply(x, x));
  }
  const ScalarValue rest = stepwise_factor(emitter, in_dtype, op, inputs, true);
  ScalarValue added = in_dtype.multiply(rest, x);
  if (type == "MovingAverageSquare") added = in_dtype.multiply(added, x);
  return emitter.emit(ScalarOp::Add, kept, added);
}

void check_factor_is_not_zero(const Op& op) {
  const std::string& type = op.attributes.text("type");
  const bool adds = type == "Add" || type == "DampenedAdd" || type == "DampenedAddSquare";
  if (adds && op.input(2) == nullptr && op.attributes.number_or("factor", 1.0) == 0.0) {
    throw LoweringError(str_cat(describe(op),
                                ": the constant factor is 0, so nothing would be "
                                "accumulated; remove the op"));
  }
}

bool has_factor(const Op& op) { return op.input(2) != nullptr || op.attributes.has("factor"); }

/// Plain sums are of any numbers, all other forms of floats.
void needs_accumulable(const Op& op) {
  needs_arithmetic(op);
  if (op.attributes.text("type") != "Add" || has_factor(op)) require_float(op, 0);
  check_factor_is_not_zero(op);
}

OpDef accumulate() {
  OpDef def;
  def.name = "Accumulate";
  def.doc =
      "Updates input 0 in place. Inputs: 0 t, 1 X (t's shape, any dtype), 2 factor (optional "
      "scalar; step for Mean). Attributes: type, factor (constant, when input 2 is absent). Add: "
      "t + X; DampenedAdd: t + f*X; DampenedAddSquare: t + f*X^2; DecayAdd: f*t + X; "
      "DecayAddSquare: f*t + X^2; MovingAverage: f*t + (1-f)*X; MovingAverageSquare: f*t + "
      "(1-f)*X^2; Infinity: max(f*t, |X|); Mean: (1-b)*t + b*X, b = 1/(step+1).";
  def.min_inputs = 2;
  def.max_inputs = 3;
  def.attributes = {{"type", Text}, {"factor", Number, false}};
  def.infer = [](const Op& op) {
    const TensorInfo info = check_update(op);
    check_scalar(op, 2, "factor");
    const std::string& type = op.attributes.text("type");
    if (std::find(kAccumulationTypes.begin(), kAccumulationTypes.end(), type) ==
        kAccumulationTypes.end()) {
      throw ValueError(str_cat(describe(op), ": unknown accumulation type '", type, "'"));
    }
    if (type == "Mean") {
      needed_input(op, 2, "step");
    } else if (type != "Add") {
      check_inputs(op, has_factor(op), str_cat("accumulation type '", type, "' wants a factor"));
    }
    return std::vector<TensorInfo>{info};
  };
  def.check_execution = needs_accumulable;
  def.modified_inputs = modifies_first;
  def.output_alias = aliases_first;
  def.scalar_body = [](ScalarEmitter& emitter, const Op& op, std::span<const ScalarValue> inputs) {
    const std::string& type = op.attributes.text("type");
    const bool plain =
        type == "Add" || type == "DampenedAdd" || type == "DecayAdd" || type == "Mean";
    return std::vector<ScalarValue>{plain ? plain_accumulate(emitter, op, inputs)
                                          : stepwise_accumulate(emitter, op, inputs)};
  };
  return def;
}

OpDef accumulator_scale() {
  OpDef def;
  def.name = "AccumulatorScale";
  def.doc =
      "Updates input 0 in place: t *= f. Inputs: 0 t, 1 f (optional; broadcasts to t). Attributes: "
      "factor (constant, when input 1 is absent); a constant 0 sets t to 0 whatever it holds.";
  def.min_inputs = 1;
  def.max_inputs = 2;
  def.attributes = {{"factor", Number, false}};
  def.infer = [](const Op& op) {
    const Tensor& t = needed_input(op, 0, "t");
    if (const Tensor* f = op.input(1)) {
      check_inputs(op, broadcast_shapes(t.shape(), f->shape()) == t.shape(),
                   "wanted a factor that broadcasts to t");
    } else {
      check_inputs(op, op.attributes.has("factor"), "wanted a factor");
    }
    return std::vector<TensorInfo>{t.info};
  };
  def.check_execution = needs_arithmetic;
  def.modified_inputs = modifies_first;
  def.output_alias = aliases_first;
  def.scalar_body = [](ScalarEmitter& emitter, const Op& op, std::span<const ScalarValue> inputs) {
    const LaneType lane = update_lane(op, {"factor"});
    if (op.input(1) == nullptr && op.attributes.number("factor") == 0.0) {
      return std::vector<ScalarValue>{emitter.constant(0.0, lane)};
    }
    const ScalarValue f = number_or_input(emitter, op, "factor", inputs, 1, 1.0, lane);
    return std::vector<ScalarValue>{
        emitter.emit(ScalarOp::Mul, emitter.convert(inputs[0], lane), f)};
  };
  return def;
}

OpDef copy_var_update() {
  OpDef def;
  def.name = "CopyVarUpdate";
  def.doc = "Writes input 1 over input 0 in place. Inputs: 0 t, 1 X of t's shape and dtype.";
  def.min_inputs = def.max_inputs = 2;
  def.infer = [](const Op& op) { return std::vector<TensorInfo>{check_update(op)}; };
  def.check_execution = [](const Op& op) {
    check_inputs(op, op.input(0)->dtype() == op.input(1)->dtype(),
                 "wanted t and X of the same dtype");
  };
  def.modified_inputs = modifies_first;
  def.output_alias = aliases_first;
  def.scalar_body = [](ScalarEmitter&, const Op&, std::span<const ScalarValue> inputs) {
    return std::vector<ScalarValue>{inputs[1]};
  };
  return def;
}

std::vector<ScalarValue> scaled_add_body(ScalarEmitter& emitter, const Op& op,
                                         std::span<const ScalarValue> inputs) {
  const LaneType lane = update_lane(op, {"a", "b"});
  const auto is_one = [&](const char* name, int index) {
    return op.input(index) == nullptr && op.attributes.number_or(name, 1.0) == 1.0;
  };
  const ScalarValue x = emitter.convert(inputs[0], lane);
  const ScalarValue y = emitter.convert(inputs[1], lane);
  const ScalarValue a = number_or_input(emitter, op, "a", inputs, 2, 1.0, lane);
  const ScalarValue b = number_or_input(emitter, op, "b", inputs, 3, 1.0, lane);
  if (is_one("a", 2)) {
    return {is_one("b", 3) ? emitter.emit(ScalarOp::Add, x, y)
                           : emitter.emit(ScalarOp::Fma, b, y, x)};
  }
  if (is_one("b", 3)) return {emitter.emit(ScalarOp::Fma, a, x, y)};
  return {emitter.emit(ScalarOp::Fma, b, y, emitter.emit(ScalarOp::Mul, a, x))};
}

OpDef scaled_add(bool in_place) {
  OpDef def;
  def.name = in_place ? "ScaledAddLhsInplace" : "ScaledAdd";
  def.doc = str_cat(in_place ? "Updates input 0 in place: " : "",
                    "a*X + b*Y in float32 (float64: in that; integers exactly, with fractions in "
                    "float64), rounded once to X's dtype. Inputs: 0 X, 1 Y (X's shape, "
                    "any dtype), 2 a, 3 b (optional scalars). Attributes: a, b (constants, default "
                    "1, where the input is absent).");
  def.min_inputs = 2;
  def.max_inputs = 4;
  def.attributes = {{"a", Number, false}, {"b", Number, false}};
  def.infer = [](const Op& op) {
    const Tensor& x = needed_input(op, 0, "X");
    const Tensor& y = needed_input(op, 1, "Y");
    check_inputs(op, x.shape() == y.shape(), "wanted X and Y of the same shape");
    check_scalar(op, 2, "a");
    check_scalar(op, 3, "b");
    return std::vector<TensorInfo>{x.info};
  };
  def.check_execution = needs_arithmetic;
  if (in_place) {
    def.modified_inputs = modifies_first;
    def.output_alias = aliases_first;
  }
  def.scalar_body = scaled_add_body;
  return def;
}

}  // namespace

void register_optimizer_ops(Registry& registry) {
  registry.add(accumulate());
  registry.add(accumulator_scale());
  registry.add(copy_var_update());
  registry.add(scaled_add(false));
  registry.add(scaled_add(true));
  register_adam_ops(registry);
}

}  // namespace pando
