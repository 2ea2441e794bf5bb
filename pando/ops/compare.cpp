// Comparisons, logic and selection.
#include "pando/ops/rules.hpp"

namespace pando {
namespace {

using Inputs = std::span<const Scalar>;

OpDef comparison(std::string name, std::string doc, std::function<Scalar(Scalar, Scalar)> formula) {
  return {.name = std::move(name),
          .doc = std::move(doc),
          .min_inputs = 2,
          .max_inputs = 2,
          .infer = infer_broadcast_to_bool,
          .check_execution = needs_same_dtypes,
          .scalar_body = pointwise_binary(std::move(formula)),
          .gradient_is_error = true};
}

OpDef logic(std::string name, std::string doc, std::function<Scalar(Scalar, Scalar)> formula) {
  OpDef def = comparison(std::move(name), std::move(doc), std::move(formula));
  def.check_execution = needs_bools;
  return def;
}

std::vector<TensorInfo> infer_where(const Op& op) {
  require_same_dtype(op, 1, 2);
  return {broadcast_info(op, {1, 2, 0})};
}

void needs_condition(const Op& op) {
  require_bool(op, 0);
  require_arithmetic(op, 1);
}

void where_gradient(GradientBuilder& builder, const Op& op) {
  Tensor* gradient = builder.output_gradient(0);
  if (gradient == nullptr) return;
  Tensor* condition = builder.forward(op.input(0));
  for (int i : {1, 2}) {
    if (!builder.wants(i)) continue;
    const char* kind = i == 1 ? "WhereXGrad" : "WhereYGrad";
    builder.set_input_gradient(
        i, builder.make(kind, {gradient, condition}, {{"shape", op.input(i)->shape()}}));
  }
}

/// The gradient where the condition chose the operand, zero elsewhere, summed to its shape.
OpDef where_grad_def(std::string name, std::string doc, bool first) {
  return {.name = std::move(name),
          .doc = std::move(doc),
          .min_inputs = 2,
          .max_inputs = 2,
          .attributes = {ints_attribute("shape")},
          .infer = infer_shape_attribute,
          .check_execution = needs_arithmetic,
          .expand = [first](OpBuilder& builder, const Op& op) {
            Tensor* gradient = op.input(0);
            Tensor* zero = builder.constant(0.0, gradient->dtype());
            Tensor* kept = builder.make(
                "Where", {op.input(1), first ? gradient : zero, first ? zero : gradient});
            return std::vector{builder.reduce_to(kept, op.attributes.ints("shape"))};
          }};
}

}  // namespace

void register_compare_ops(Registry& registry) {
  registry.add(comparison("Equal", "bool: input 0 == input 1, with broadcasting.",
                          [](Scalar a, Scalar b) { return a == b; }));
  registry.add(comparison("Greater", "bool: input 0 > input 1, with broadcasting.",
                          [](Scalar a, Scalar b) { return a > b; }));
  registry.add(logic("And", "Logical and of two bool inputs, with broadcasting.",
                     [](Scalar a, Scalar b) { return a & b; }));
  registry.add(logic("Or", "Logical or of two bool inputs, with broadcasting.",
                     [](Scalar a, Scalar b) { return a | b; }));
  registry.add({.name = "Not",
                .doc = "Logical not of a bool input.",
                .infer = infer_broadcast_to_bool,
                .check_execution = needs_bools,
                .scalar_body = pointwise_unary([](Scalar a) { return !a; }),
                .gradient_is_error = true});
  registry.add(
      {.name = "Where",
       .doc = "Input 1 where input 0 (bool) is true, else input 2, with broadcasting.",
       .min_inputs = 3,
       .max_inputs = 3,
       .infer = infer_where,
       .check_execution = needs_condition,
       .scalar_body = pointwise([](const Op&, Inputs in) { return select(in[0], in[1], in[2]); }),
       .gradient = where_gradient,
       .differentiable_inputs = {1, 2}});
  registry.add(where_grad_def("WhereXGrad",
                              "For inputs g, condition: g where the condition is true, else 0, "
                              "summed to attribute shape.",
                              true));
  registry.add(where_grad_def("WhereYGrad",
                              "For inputs g, condition: g where the condition is false, else 0, "
                              "summed to attribute shape.",
                              false));
}

}  // namespace pando
