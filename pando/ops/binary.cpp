// Elementwise arithmetic of two or more tensors, and its gradients.
#include "pando/base/half.hpp"
#include "pando/ops/rules.hpp"

namespace pando {
namespace {

using Inputs = std::span<const Scalar>;

OpDef binary_def(std::string name, std::string doc, std::function<Scalar(Scalar, Scalar)> formula) {
  return {.name = std::move(name),
          .doc = std::move(doc),
          .min_inputs = 2,
          .max_inputs = 2,
          .infer = infer_broadcast,
          .check_execution = needs_arithmetic,
          .scalar_body = pointwise_binary(std::move(formula))};
}

/// A gradient op with attribute "shape", the operand's shape, to which `product` is summed.
OpDef operand_grad_def(std::string name, std::string doc, int num_inputs,
                       std::function<Tensor*(OpBuilder&, const Op&)> product) {
  return {.name = std::move(name),
          .doc = std::move(doc) + " Summed to attribute shape.",
          .min_inputs = num_inputs,
          .max_inputs = num_inputs,
          .attributes = {ints_attribute("shape")},
          .infer = infer_shape_attribute,
          .check_execution = needs_arithmetic,
          .expand = [product = std::move(product)](OpBuilder& builder, const Op& op) {
            Tensor* sum = builder.reduce_to(product(builder, op), op.attributes.ints("shape"));
            return std::vector{fresh(builder, op, sum)};
          }};
}

/// Asks for the gradient of operand `index` as `kind`(g, saved...).
void set_operand_gradient(GradientBuilder& builder, const Op& op, int index, const char* kind,
                          const std::vector<Tensor*>& saved) {
  std::vector<Tensor*> inputs = {builder.output_gradient(0)};
  for (Tensor* tensor : saved) inputs.push_back(builder.forward(tensor));
  builder.set_input_gradient(index,
                             builder.make(kind, inputs, {{"shape", op.input(index)->shape()}}));
}

bool reached(GradientBuilder& builder, int index) {
  return builder.output_gradient(0) != nullptr && builder.wants(index);
}

void add_sums(Registry& registry) {
  const OpDef add = binary_def("Add", "Input 0 + input 1, with broadcasting.",
                               [](Scalar a, Scalar b) { return a + b; });
  registry.add(with_gradient(add,
                             [](GradientBuilder& builder, const Op& op) {
                               if (reached(builder, 0))
                                 set_operand_gradient(builder, op, 0, "AddArg0Grad", {});
                               if (reached(builder, 1))
                                 set_operand_gradient(builder, op, 1, "AddArg1Grad", {});
                             },
                             {0, 1}));
  registry.add(
      in_place(add, "AddLhsInplace", "Adds input 1, broadcast to its shape, to input 0 in place."));
  const auto same = [](OpBuilder&, const Op& op) { return op.input(0); };
  registry.add(operand_grad_def("AddArg0Grad", "Input g.", 1, same));
  registry.add(operand_grad_def("AddArg1Grad", "Input g.", 1, same));

  registry.add(with_gradient(binary_def("Sub", "Input 0 - input 1, with broadcasting.",
                                        [](Scalar a, Scalar b) { return a - b; }),
                             [](GradientBuilder& builder, const Op& op) {
                               if (reached(builder, 0))
                                 set_operand_gradient(builder, op, 0, "SubArg0Grad", {});
                               if (reached(builder, 1))
                                 set_operand_gradient(builder, op, 1, "SubArg1Grad", {});
                             },
                             {0, 1}));
  registry.add(operand_grad_def("SubArg0Grad", "Input g.", 1, same));
  // Negating after the sum touches fewer elements.
  registry.add({.name = "SubArg1Grad",
                .doc = "-g of input g, summed to attribute shape.",
                .attributes = {ints_attribute("shape")},
                .infer = infer_shape_attribute,
                .check_execution = needs_arithmetic,
                .expand = [](OpBuilder& builder, const Op& op) {
                  Tensor* sum = builder.reduce_to(op.input(0), op.attributes.ints("shape"));
                  return std::vector{builder.make("Neg", {sum})};
                }});
}

/// Equal dtypes, or half precision with a float32 tensor of exactly one element, which keeps it.
std::vector<TensorInfo> infer_mul(const Op& op) {
  const TensorInfo& lhs = input_info(op, 0);
  const TensorInfo& rhs = input_info(op, 1);
  const auto is_scale = [](const TensorInfo& info, const TensorInfo& other) {
    return info.dtype == DType::Float32 && info.num_elements() == 1 &&
           is_half_precision(other.dtype);
  };
  const bool mixed = is_scale(lhs, rhs) || is_scale(rhs, lhs);
  if (!mixed) require_same_dtype(op, 0, 1);
  TensorInfo info = broadcast_info(op, {0, 1});
  if (mixed) info.dtype = is_half_precision(lhs.dtype) ? lhs.dtype : rhs.dtype;
  return {info};
}

/// The gradient of one factor. With mixed dtypes the product is made and summed in float32: that
/// of a float32 scale would otherwise lose the range the scale was chosen for.
OpDef mul_grad_def(std::string name, std::string doc) {
  return {.name = std::move(name),
          .doc = std::move(doc) + " Summed to attribute shape, in attribute dtype.",
          .min_inputs = 2,
          .max_inputs = 2,
          .attributes = {ints_attribute("shape"), dtype_attribute("dtype")},
          .infer =
              [](const Op& op) {
                TensorInfo info = infer_shape_attribute(op).front();
                info.dtype = op.attributes.dtype("dtype");
                return std::vector{info};
              },
          .check_execution = needs_arithmetic,
          .expand =
              [](OpBuilder& builder, const Op& op) {
                const DType target = op.attributes.dtype("dtype");
                Tensor* gradient = op.input(0);
                Tensor* factor = op.input(1);
                if (target != gradient->dtype()) {
                  gradient = builder.cast(gradient, target);
                  factor = builder.cast(factor, target);
                }
                Tensor* product = builder.make("Mul", {gradient, factor});
                return std::vector{builder.reduce_to(product, op.attributes.ints("shape"))};
              }};
}

void mul_gradient(GradientBuilder& builder, const Op& op) {
  for (int i : {0, 1}) {
    if (!reached(builder, i)) continue;
    const Tensor* operand = op.input(i);
    builder.set_input_gradient(
        i, builder.make(i == 0 ? "MulArg0Grad" : "MulArg1Grad",
                        {builder.output_gradient(0), builder.forward(op.input(1 - i))},
                        {{"shape", operand->shape()}, {"dtype", operand->dtype()}}));
  }
}

void add_products(Registry& registry) {
  registry.add({.name = "Mul",
                .doc = "Input 0 * input 1, with broadcasting. A float16 or bfloat16 tensor times a "
                       "float32 tensor of one element keeps its dtype.",
                .min_inputs = 2,
                .max_inputs = 2,
                .infer = infer_mul,
                .check_execution = needs_arithmetic,
                .scalar_body = pointwise_binary([](Scalar a, Scalar b) { return a * b; }),
                .gradient = mul_gradient,
                .differentiable_inputs = {0, 1}});
  registry.add(mul_grad_def("MulArg0Grad", "g * rhs for inputs g, rhs."));
  registry.add(mul_grad_def("MulArg1Grad", "g * lhs for inputs g, lhs."));

  registry.add(with_gradient(
      binary_def("Div", "Input 0 / input 1, with broadcasting; integers truncate toward zero.",
                 [](Scalar a, Scalar b) { return a / b; }),
      [](GradientBuilder& builder, const Op& op) {
        if (reached(builder, 0)) {
          set_operand_gradient(builder, op, 0, "DivArg0Grad", {op.input(1)});
        }
        if (reached(builder, 1)) {
          set_operand_gradient(builder, op, 1, "DivArg1Grad", {op.input(0), op.input(1)});
        }
      },
      {0, 1}));
  registry.add(operand_grad_def("DivArg0Grad", "g / rhs for inputs g, rhs.", 2,
                                [](OpBuilder& builder, const Op& op) {
                                  return builder.make("Div", {op.input(0), op.input(1)});
                                }));
  // Two quotients instead of rhs^2, which overflows early in float16.
  registry.add(
      operand_grad_def("DivArg1Grad", "-g lhs / rhs^2 for inputs g, lhs, rhs.", 3,
                       [](OpBuilder& builder, const Op& op) {
                         Tensor* first = builder.make("Div", {op.input(0), op.input(2)});
                         Tensor* second = builder.make("Div", {op.input(1), op.input(2)});
                         return builder.make("Neg", {builder.make("Mul", {first, second})});
                       }));

  registry.add(with_gradient(
      binary_def("Fmod",
                 "Remainder of input 0 / input 1 with the sign of input 0, with broadcasting. The "
                 "divisor has no gradient.",
                 [](Scalar a, Scalar b) { return rem(a, b); }),
      [](GradientBuilder& builder, const Op& op) {
        if (reached(builder, 0)) set_operand_gradient(builder, op, 0, "FmodArg0Grad", {});
      },
      {0}));
  registry.add(operand_grad_def("FmodArg0Grad", "Input g.", 1,
                                [](OpBuilder&, const Op& op) { return op.input(0); }));
}

/// The value of a one-element floating-point constant.
std::optional<double> constant_scalar(const Tensor& tensor) {
  if (tensor.kind() != TensorKind::Constant || tensor.data == nullptr ||
      tensor.info.num_elements() != 1) {
    return std::nullopt;
  }
  const std::byte* data = tensor.data->data;
  switch (tensor.dtype()) {
    case DType::Float16:
    case DType::BFloat16:
      return half_precision_to_float(*reinterpret_cast<const std::uint16_t*>(data), tensor.dtype());
    case DType::Float32:
      return *reinterpret_cast<const float*>(data);
    case DType::Float64:
      return *reinterpret_cast<const double*>(data);
    default:
      return std::nullopt;
  }
}

/// The common constant exponents need no power function.
Scalar pow_body(const Op& op, Inputs in) {
  const Scalar x = in[0];
  const std::optional<double> exponent = constant_scalar(*op.input(1));
  if (exponent == 1.0) return x;
  if (exponent == 2.0) return x * x;
  if (exponent == 3.0) return x * x * x;
  if (exponent == -1.0) return 1.0 / x;
  return pow(x, in[1]);
}

Tensor* pow_base_gradient(OpBuilder& builder, const Op& op) {
  Tensor* gradient = op.input(0);
  Tensor* base = op.input(1);
  Tensor* exponent = op.input(2);
  const DType dtype = base->dtype();
  if (const std::optional<double> value = constant_scalar(*exponent)) {
    if (value == 0.0) return builder.make("UnaryZeroGrad", {gradient});
    Tensor* power = builder.make("Pow", {base, builder.constant(*value - 1.0, dtype)});
    Tensor* slope = builder.make("Mul", {power, builder.constant(*value, dtype)});
    return builder.make("Mul", {gradient, slope});
  }
  Tensor* zero = builder.constant(0.0, dtype);
  Tensor* less_one = builder.make("Sub", {exponent, builder.constant(1.0, dtype)});
  Tensor* scaled = builder.make("Mul", {gradient, exponent});
  Tensor* product = builder.make("Mul", {scaled, builder.make("Pow", {base, less_one})});
  return builder.make("Where", {builder.make("Equal", {exponent, zero}), zero, product});
}

Tensor* pow_exponent_gradient(OpBuilder& builder, const Op& op) {
  Tensor* gradient = op.input(0);
  Tensor* base = op.input(1);
  Tensor* exponent = op.input(2);
  Tensor* zero = builder.constant(0.0, base->dtype());
  Tensor* is_zero = builder.make("Equal", {base, zero});
  Tensor* not_negative = builder.make("Not", {builder.make("Greater", {zero, exponent})});
  Tensor* slope = builder.make("Mul", {op.input(3), builder.make("Log", {base})});
  Tensor* flat = builder.make("And", {is_zero, not_negative});
  return builder.make("Mul", {gradient, builder.make("Where", {flat, zero, slope})});
}

void add_power(Registry& registry) {
  registry.add(
      {.name = "Pow",
       .doc = "Input 0 to the power of input 1, with broadcasting. Integers: modulo 2^bits; "
              "with a negative exponent 1 and -1 keep their powers, all others give 0.",
       .min_inputs = 2,
       .max_inputs = 2,
       .infer = infer_broadcast,
       .check_execution = needs_numbers,
       .scalar_body = pointwise(pow_body),
       .gradient =
           [](GradientBuilder& builder, const Op& op) {
             Tensor* base = op.input(0);
             Tensor* exponent = op.input(1);
             if (reached(builder, 0)) {
               set_operand_gradient(builder, op, 0, "PowArg0Grad", {base, exponent});
             }
             if (reached(builder, 1)) {
               set_operand_gradient(builder, op, 1, "PowArg1Grad", {base, exponent, op.output(0)});
             }
           },
       .differentiable_inputs = {0, 1}});
  registry.add(operand_grad_def(
      "PowArg0Grad", "For inputs g, x, e: g e x^(e-1), and 0 where e is 0.", 3, pow_base_gradient));
  registry.add(operand_grad_def(
      "PowArg1Grad",
      "For inputs g, x, e, out: g out ln x, and 0 where x is 0 and e is not negative.", 4,
      pow_exponent_gradient));
}

Scalar fold(Inputs in, Scalar (*combine)(Scalar, Scalar)) {
  Scalar result = in[0];
  for (std::size_t i = 1; i < in.size(); ++i) result = combine(result, in[i]);
  return result;
}

Tensor* max_argument_gradient(OpBuilder& builder, const Op& op) {
  Tensor* gradient = op.input(0);
  Tensor* is_maximum = builder.make("Equal", {op.input(1), op.input(2)});
  return builder.make("Where", {is_maximum, gradient, builder.constant(0.0, gradient->dtype())});
}

void add_variadic(Registry& registry) {
  registry.add(
      {.name = "Max",
       .doc = "Elementwise maximum of one or more inputs, with broadcasting. Every input "
              "that equals the output gets the full gradient.",
       .max_inputs = -1,
       .infer = infer_broadcast,
       .check_execution = needs_arithmetic,
       .scalar_body = pointwise([](const Op&, Inputs in) { return fold(in, max); }),
       .gradient =
           [](GradientBuilder& builder, const Op& op) {
             for (int i = 0; i < op.num_inputs(); ++i) {
               if (!reached(builder, i)) continue;
               set_operand_gradient(builder, op, i, "MaxArgGrad", {op.input(i), op.output(0)});
             }
           },
       .differentiable_inputs = {0}});
  registry.add(operand_grad_def("MaxArgGrad", "For inputs g, x, out: g where x equals out, else 0.",
                                3, max_argument_gradient));
  registry.add({.name = "Sum",
                .doc = "Elementwise sum of one or more inputs of one shape, in input order. Adds "
                       "the gradients that reach one tensor.",
                .max_inputs = -1,
                .infer = infer_all_same,
                .check_execution = needs_arithmetic,
                .scalar_body = pointwise([](const Op&, Inputs in) {
                  return fold(in, [](Scalar a, Scalar b) { return a + b; });
                }),
                .expand = [](OpBuilder& builder, const Op& op) -> std::vector<Tensor*> {
                  if (op.num_inputs() > 1) return {};
                  return {builder.make("Identity", {op.input(0)})};
                },
                .gradient =
                    [](GradientBuilder& builder, const Op& op) {
                      Tensor* gradient = builder.output_gradient(0);
                      for (int i = 0; gradient != nullptr && i < op.num_inputs(); ++i) {
                        if (builder.wants(i)) builder.set_input_gradient(i, gradient);
                      }
                    },
                .differentiable_inputs = {0}});
}

}  // namespace

void register_binary_ops(Registry& registry) {
  add_sums(registry);
  add_products(registry);
  add_power(registry);
  add_variadic(registry);
}

}  // namespace pando
