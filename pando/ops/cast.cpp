// Casts between dtypes and the scaled casts of float8.
#include <cmath>

#include "pando/ops/rules.hpp"

namespace pando {
namespace {

using Inputs = std::span<const Scalar>;

Scalar cast_body(const Op& op, Inputs in) { return in[0].as_dtype(op.attributes.dtype("dtype")); }

std::vector<TensorInfo> infer_cast(const Op& op) {
  if (traits(input_info(op, 0).dtype).is_complex) wrong_input(op, "wanted a real dtype");
  const DType target = op.attributes.dtype("dtype");
  if (is_float8(target)) {
    wrong_input(
        op, str_cat("wanted a target dtype other than ", target, ": use pow2scale_cast_to_fp8"));
  }
  if (traits(target).is_complex) {
    wrong_input(op, str_cat("wanted a real target dtype, not ", target));
  }
  return infer_dtype_attribute(op);
}

void cast_gradient(GradientBuilder& builder, const Op& op) {
  const DType source = op.input(0)->dtype();
  Tensor* gradient = builder.output_gradient(0);
  if (gradient == nullptr || !is_half_or_single_precision(source)) return;
  builder.set_input_gradient(0, builder.make("CastGrad", {gradient}, {{"dtype", source}}));
}

/// 2^exponent, exactly, for an int32 exponent; exponents beyond +-63 count as +-63, which under- or
/// overflows every dtype that these scales are used with all the same.
Scalar exact_power_of_two(Scalar exponent) {
  const auto integer = [&](std::int64_t value) { return exponent.integer(value, LaneType::I32); };
  const Scalar magnitude = min(abs(exponent), integer(63));
  const Scalar one(exponent.emitter(), exponent.emitter().constant(1.0, LaneType::F32));
  Scalar power = one;
  for (int bit = 0; bit < 6; ++bit) {
    const Scalar absent = (magnitude & integer(std::int64_t{1} << bit)) == integer(0);
    power = power * select(absent, one, one.constant(std::ldexp(1.0, 1 << bit)));
  }
  return select(exponent < integer(0), 1.0 / power, power);
}

void check_log2_scale(const Op& op) {
  const TensorInfo& scale = input_info(op, 1);
  if (scale.dtype != DType::Int32 || !scale.shape.empty()) {
    wrong_input(op, "wanted a scalar int32 log2 scale at input 1");
  }
}

void require_scalable_source(const Op& op) {
  const DType source = input_info(op, 0).dtype;
  if (!is_half_or_single_precision(source)) {
    wrong_input(op, "wanted float16, bfloat16 or float32 at input 0");
  }
}

std::vector<TensorInfo> infer_scale_then_cast(const Op& op) {
  require_scalable_source(op);
  if (!is_float8(op.attributes.dtype("dtype"))) {
    wrong_input(op, str_cat("wanted a float8 target dtype, not ", op.attributes.dtype("dtype")));
  }
  check_log2_scale(op);
  return infer_dtype_attribute(op);
}

void require_scaled_target(const Op& op) {
  const DType target = op.attributes.dtype("dtype");
  if (!is_half_or_single_precision(target)) {
    wrong_input(op, str_cat("wanted target dtype float16, bfloat16 or float32, not ", target));
  }
}

std::vector<TensorInfo> infer_cast_then_scale(const Op& op) {
  if (!is_float8(input_info(op, 0).dtype)) wrong_input(op, "wanted a float8 dtype at input 0");
  require_scaled_target(op);
  check_log2_scale(op);
  return infer_dtype_attribute(op);
}

std::vector<TensorInfo> infer_scale(const Op& op) {
  require_scalable_source(op);
  require_scaled_target(op);
  check_log2_scale(op);
  return infer_dtype_attribute(op);
}

OpDef scaled_def(std::string name, std::string doc, InferRule infer) {
  return {.name = std::move(name),
          .doc = std::move(doc),
          .min_inputs = 2,
          .max_inputs = 2,
          .attributes = {dtype_attribute("dtype")},
          .infer = std::move(infer),
          .scalar_body = pointwise([](const Op& op, Inputs in) {
            return (in[0] * exact_power_of_two(in[1])).as_dtype(op.attributes.dtype("dtype"));
          }),
          .gradient_is_error = true};
}

}  // namespace

void register_cast_ops(Registry& registry) {
  registry.add(
      {.name = "Cast",
       .doc = "Input 0 converted to attribute dtype. Float to int truncates toward zero; what "
              "lies outside the range becomes its end, NaN becomes 0. Int to a narrower int "
              "wraps. Nonzero becomes true. Differentiable for float16, bfloat16 and float32 "
              "sources.",
       .attributes = {dtype_attribute("dtype")},
       .infer = infer_cast,
       .scalar_body = pointwise(cast_body),
       .gradient = cast_gradient,
       .differentiable_inputs = {0}});
  registry.add({.name = "CastGrad",
                .doc = "Input g converted to attribute dtype.",
                .attributes = {dtype_attribute("dtype")},
                .infer = infer_cast,
                .scalar_body = pointwise(cast_body)});
  OpDef to_float8 = scaled_def("Pow2ScaleThenCast",
                               "float8(input 0 * 2^input 1), float8 format in attribute dtype; "
                               "rounds to nearest even, out of range becomes NaN.",
                               infer_scale_then_cast);
  OpDef from_float8 = scaled_def("CastThenPow2Scale",
                                 "dtype(input 0) * 2^input 1 for a float8 input 0 and attribute "
                                 "dtype float16, bfloat16 or float32.",
                                 infer_cast_then_scale);
  for (OpDef* def : {&to_float8, &from_float8}) {
    def->log2_scale_input = 1;
    registry.add(std::move(*def));
  }
  registry.add(scaled_def("Pow2Scale",
                          "dtype(input 0 * 2^input 1) for a float input 0; rounded once. What the "
                          "scaled products of float8 expand to.",
                          infer_scale));
}

}  // namespace pando
