// Elementwise unary ops and their gradients.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "pando/ops/rules.hpp"

namespace pando {
namespace {

using Inputs = std::span<const Scalar>;

void add_arithmetic(Registry& registry) {
  registry.add(with_gradient(unary_def("Abs", "|x| of input 0.", [](Scalar x) { return abs(x); }),
                             unary_gradient("AbsGrad", Saved::Input)));
  registry.add(same_shape_def("AbsGrad", "g * sign(x) for inputs g, x; 0 where x is 0.", 2,
                              [](const Op&, Inputs in) { return in[0] * sign(in[1]); }));
  registry.add(with_gradient(unary_def("Neg", "-x of input 0.", [](Scalar x) { return -x; }),
                             unary_gradient("NegGrad", Saved::Nothing)));
  registry.add(unary_def("NegGrad", "-g of input g.", [](Scalar g) { return -g; }));
}

/// Steps: their gradient is zero.
void add_steps(Registry& registry) {
  const GradientRule zero = unary_gradient("UnaryZeroGrad", Saved::Nothing);
  registry.add(with_gradient(unary_def("Sign", "-1, 0 or 1 by the sign of input 0; NaN stays NaN.",
                                       [](Scalar x) { return sign(x); }),
                             zero));
  registry.add(with_gradient(
      unary_def("Ceil", "Input 0 rounded up to an integer; integer dtypes stay as they are.",
                [](Scalar x) { return x.is_float() ? ceil(x) : x; }),
      zero));
  registry.add(with_gradient(
      unary_def("Floor", "Input 0 rounded down to an integer; integer dtypes stay as they are.",
                [](Scalar x) { return x.is_float() ? floor(x) : x; }),
      zero));
  registry.add(
      unary_def("UnaryZeroGrad", "Zeros like input g.", [](Scalar g) { return g.constant(0.0); }));
}

void add_transcendental(Registry& registry) {
  const OpDef exponential =
      float_unary_def("Exp", "e^x of input 0.", [](Scalar x) { return exp(x); });
  registry.add(with_gradient(exponential, unary_gradient("ExpGrad", Saved::Output)));
  registry.add(in_place(exponential, "ExpInplace", "Writes e^x to input 0."));
  registry.add(float_same_shape_def("ExpGrad", "g * out for inputs g, out.", 2,
                                    [](const Op&, Inputs in) { return in[0] * in[1]; }));
  registry.add(
      with_gradient(float_unary_def("Log", "ln x of input 0.", [](Scalar x) { return log(x); }),
                    unary_gradient("LogGrad", Saved::Input)));
  registry.add(float_same_shape_def("LogGrad", "g / x for inputs g, x.", 2,
                                    [](const Op&, Inputs in) { return in[0] / in[1]; }));
  registry.add(with_gradient(
      float_unary_def("Sqrt", "Square root of input 0.", [](Scalar x) { return sqrt(x); }),
      unary_gradient("SqrtGrad", Saved::Output)));
  registry.add(float_same_shape_def("SqrtGrad", "g / (2 out) for inputs g, out.", 2,
                                    [](const Op&, Inputs in) { return in[0] / (2.0 * in[1]); }));
  registry.add(with_gradient(
      float_unary_def("Sin", "sin x of input 0 (radians).", [](Scalar x) { return sin(x); }),
      unary_gradient("SinGrad", Saved::Input)));
  registry.add(float_same_shape_def("SinGrad", "g * cos x for inputs g, x.", 2,
                                    [](const Op&, Inputs in) { return in[0] * cos(in[1]); }));
  registry.add(with_gradient(
      float_unary_def("Cos", "cos x of input 0 (radians).", [](Scalar x) { return cos(x); }),
      unary_gradient("CosGrad", Saved::Input)));
  registry.add(float_same_shape_def("CosGrad", "-g * sin x for inputs g, x.", 2,
                                    [](const Op&, Inputs in) { return -(in[0] * sin(in[1])); }));
}

void add_accurate(Registry& registry) {
  const auto add = [&](const char* name, const char* doc, Scalar (*formula)(Scalar)) {
    registry.add(with_gradient(float_unary_def(name, doc, formula),
                               unary_gradient(str_cat(name, "Grad"), Saved::Input)));
  };
  const auto add_gradient = [&](const char* name, const char* doc, Scalar (*body)(Scalar, Scalar)) {
    registry.add(float_same_shape_def(name, doc, 2,
                                      [body](const Op&, Inputs in) { return body(in[0], in[1]); }));
  };
  constexpr double kTwiceInverseSqrtPi = 2.0 * std::numbers::inv_sqrtpi;
  add("Log1p", "ln(1 + x) of input 0, accurate where x is small.",
      [](Scalar x) { return log1p(x); });
  add_gradient("Log1pGrad", "g / (1 + x) for inputs g, x.",
               [](Scalar g, Scalar x) { return g / (1.0 + x); });
  registry.add(
      with_gradient(float_unary_def("Expm1", "e^x - 1 of input 0, accurate where x is small.",
                                    [](Scalar x) { return expm1(x); }),
                    unary_gradient("Expm1Grad", Saved::Output)));
  add_gradient("Expm1Grad", "g * (out + 1) for inputs g, out.",
               [](Scalar g, Scalar out) { return g * (out + 1.0); });
  add("Atan", "Arc tangent of input 0, in radians.", [](Scalar x) { return atan(x); });
  add_gradient("AtanGrad", "g / (1 + x^2) for inputs g, x.",
               [](Scalar g, Scalar x) { return g / (1.0 + x * x); });
  add("Erf", "Error function 2 / sqrt(pi) * integral of e^(-t^2) from 0 to x of input 0.",
      [](Scalar x) { return erf(x); });
  add_gradient("ErfGrad", "g * 2 / sqrt(pi) * e^(-x^2) for inputs g, x.",
               [](Scalar g, Scalar x) { return g * (kTwiceInverseSqrtPi * exp(-(x * x))); });
  add("Erfc", "1 - erf(x) of input 0, accurate where it is small.",
      [](Scalar x) { return erfc(x); });
  add_gradient("ErfcGrad", "-g * 2 / sqrt(pi) * e^(-x^2) for inputs g, x.",
               [](Scalar g, Scalar x) { return g * (-kTwiceInverseSqrtPi * exp(-(x * x))); });
}

double lowest_of(DType dtype) {
  if (dtype == DType::Float16) return -65504.0;
  if (is_floating_point(dtype)) return -HUGE_VAL;
  return traits(dtype).is_signed ? -std::ldexp(1.0, 8 * int(dtype_bytes(dtype)) - 1) : 0.0;
}

double highest_of(DType dtype) {
  if (dtype == DType::Float16) return 65504.0;
  if (is_floating_point(dtype)) return HUGE_VAL;
  if (dtype == DType::Bool) return 1.0;
  if (dtype_bytes(dtype) == 8) return std::nextafter(std::ldexp(1.0, 63), 0.0);
  return std::ldexp(1.0, 8 * int(dtype_bytes(dtype)) - (traits(dtype).is_signed ? 1 : 0)) - 1.0;
}

/// Attribute "min" or "max" as the dtype of the clipped tensor holds it, or nothing when that bound
/// does not limit any value of the dtype.
std::optional<Scalar> clip_limit(const Op& op, const char* name, Scalar like) {
  const DType dtype = op.input(0)->dtype();
  const double lowest = lowest_of(dtype), highest = highest_of(dtype);
  const double limit = op.attributes.number(name);
  const bool is_lower = std::string_view(name) == "min";
  if (dtype != DType::Float16 && (is_lower ? limit <= lowest : limit >= highest)) {
    return std::nullopt;
  }
  return like.constant(std::clamp(limit, lowest, highest)).as_dtype(dtype);
}

Scalar clip_body(const Op& op, Inputs in) {
  Scalar result = in[0];
  if (const auto low = clip_limit(op, "min", result)) result = max(result, *low);
  if (const auto high = clip_limit(op, "max", result)) result = min(result, *high);
  return result;
}

Scalar clip_grad_body(const Op& op, Inputs in) {
  Scalar result = in[0];
  const Scalar zero = result.constant(0.0);
  for (const char* name : {"min", "max"}) {
    if (const auto limit = clip_limit(op, name, in[1])) {
      result = select(in[1] == *limit, zero, result);
    }
  }
  return result;
}

void add_clip(Registry& registry) {
  const std::vector<AttributeSpec> limits = {number_attribute("min"), number_attribute("max")};
  registry.add({.name = "Clip",
                .doc = "min(max(x, attribute min), attribute max) of input 0; NaN stays NaN. The "
                       "limits are rounded to the dtype, for float16 first clamped to +-65504.",
                .attributes = limits,
                .infer = infer_same_as_input,
                .check_execution = needs_arithmetic,
                .scalar_body = pointwise(clip_body),
                .gradient = unary_gradient("ClipGrad", Saved::Output, {"min", "max"}),
                .differentiable_inputs = {0}});
  OpDef gradient =
      same_shape_def("ClipGrad", "For inputs g, out: g where out is neither of the limits, else 0.",
                     2, clip_grad_body);
  gradient.attributes = limits;
  registry.add(std::move(gradient));
}

std::vector<TensorInfo> infer_test(const Op& op) {
  TensorInfo info = infer_same_as_input(op).front();
  info.dtype = DType::Bool;
  return {info};
}

void add_tests(Registry& registry) {
  const auto no = [](Scalar x) { return x.integer(0, LaneType::I32); };
  registry.add({.name = "IsNaN",
                .doc = "bool: whether input 0 is NaN (false for integers).",
                .infer = infer_test,
                .check_execution = needs_arithmetic,
                .scalar_body =
                    pointwise_unary([no](Scalar x) { return x.is_float() ? is_nan(x) : no(x); })});
  registry.add({.name = "IsInf",
                .doc = "bool: whether input 0 is +inf or -inf (false for integers).",
                .infer = infer_test,
                .check_execution = needs_arithmetic,
                .scalar_body =
                    pointwise_unary([no](Scalar x) { return x.is_float() ? is_inf(x) : no(x); })});
}

void add_identity(Registry& registry) {
  registry.add({.name = "Identity",
                .doc = "The value of input 0 under another name.",
                .infer = [](const Op& op) { return std::vector{input_info(op, 0)}; },
                .view = identity_view,
                .gradient = unary_gradient("IdentityGrad", Saved::Nothing),
                .is_elidable = true,
                .differentiable_inputs = {0}});
  registry.add({.name = "IdentityGrad",
                .doc = "The value of input g.",
                .infer = [](const Op& op) { return std::vector{input_info(op, 0)}; },
                .view = identity_view});
  const OpDef detach{.name = "Detach",
                     .doc = "The value of input 0; no gradient passes.",
                     .infer = [](const Op& op) { return std::vector{input_info(op, 0)}; },
                     .view = identity_view};
  registry.add(detach);
  registry.add(view_in_place(detach, "DetachInplace",
                             "An alias of input 0 through which no gradient passes."));
}

void needs_narrow_numbers(const Op& op) {
  const TensorInfo& info = input_info(op, 0);
  const bool known = is_integer(info.dtype) || is_half_or_single_precision(info.dtype);
  if (known && dtype_bytes(info.dtype) < 8) return;
  throw LoweringError(str_cat(describe(op),
                              ": wanted int8, int16, int32, uint8, uint16, uint32, float16, "
                              "bfloat16 or float32; given '",
                              op.input(0)->name(), "' ", info_text(info), ". Cast it first"));
}

void add_increment_mod(Registry& registry) {
  const OpDef def{.name = "IncrementMod",
                  .doc =
                      "rem(x + attribute increment, attribute modulus) of input 0: the remainder "
                      "with the sign of the dividend. Integers use truncated attributes, and the "
                      "sum wraps in their dtype. No 64-bit dtypes.",
                  .attributes = {number_attribute("increment"), number_attribute("modulus")},
                  .infer = infer_same_as_input,
                  .check_execution = needs_narrow_numbers,
                  .scalar_body = pointwise([](const Op& op, Inputs in) {
                    const Scalar sum = in[0] + op.attributes.number("increment");
                    return rem(sum.is_float() ? sum : sum.as_dtype(op.input(0)->dtype()),
                               in[0].constant(op.attributes.number("modulus")));
                  })};
  registry.add(def);
  registry.add(in_place(def, "IncrementModInplace",
                        "Writes rem(x + attribute increment, attribute modulus) to input 0."));
}

}  // namespace

void register_unary_ops(Registry& registry) {
  add_arithmetic(registry);
  add_steps(registry);
  add_transcendental(registry);
  add_accurate(registry);
  add_clip(registry);
  add_tests(registry);
  add_identity(registry);
  add_increment_mod(registry);
}

}  // namespace pando
