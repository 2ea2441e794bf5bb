// Activation functions and their gradients.
#include <numbers>

#include "pando/ops/rules.hpp"

namespace pando {
namespace {

using Inputs = std::span<const Scalar>;

// gelu(x) = 0.5 x (1 + tanh u) with u = sqrt(2/pi) (x + 0.044715 x^3). Since 0.5 (1 + tanh u) is
// sigmoid(2u), the code uses x sigmoid(2u), which does not cancel for negative x.
constexpr double kGeluCubic = 0.044715;
constexpr double kTwiceSqrt2OverPi = 2.0 * 0.79788456080286535588;

Scalar gelu(Scalar x) {
  const Scalar twice_u = kTwiceSqrt2OverPi * x * (1.0 + kGeluCubic * (x * x));
  return x * sigmoid(twice_u);
}

Scalar gelu_grad(Scalar g, Scalar x) {
  const Scalar square = x * x;
  const Scalar s = sigmoid(kTwiceSqrt2OverPi * x * (1.0 + kGeluCubic * square));
  const Scalar slope = kTwiceSqrt2OverPi * (1.0 + 3.0 * kGeluCubic * square);
  return g * (s + x * s * (1.0 - s) * slope);
}

constexpr double kInverseSqrt2 = 1.0 / std::numbers::sqrt2;

/// 0.5 (1 + erf(x / sqrt 2)), which cancels for negative x, as a complement, which does not.
Scalar normal_cdf(Scalar x) { return 0.5 * erfc(-kInverseSqrt2 * x); }

Scalar gelu_erf_grad(Scalar g, Scalar x) {
  constexpr double kInverseSqrt2Pi = kInverseSqrt2 * std::numbers::inv_sqrtpi;
  const Scalar density = kInverseSqrt2Pi * exp(-0.5 * (x * x));
  return g * (normal_cdf(x) + x * density);
}

void add_activation(Registry& registry, const std::string& name, const std::string& formula,
                    std::function<Scalar(Scalar)> body, Saved saved) {
  OpDef def = float_unary_def(name, formula + " of input 0.", std::move(body));
  registry.add(in_place(def, name + "Inplace", "Writes " + formula + " to input 0."));
  def.is_cheap_to_repeat = true;
  registry.add(with_gradient(std::move(def), unary_gradient(name + "Grad", saved)));
}

void add_gradient(Registry& registry, const std::string& name, const std::string& doc,
                  Scalar (*body)(Scalar g, Scalar saved)) {
  registry.add(float_same_shape_def(name, doc, 2,
                                    [body](const Op&, Inputs in) { return body(in[0], in[1]); }));
}

}  // namespace

void register_activation_ops(Registry& registry) {
  OpDef relu = unary_def("Relu", "max(x, 0) of input 0; NaN stays NaN.",
                         [](Scalar x) { return max(x, x.constant(0.0)); });
  registry.add(in_place(relu, "ReluInplace", "Writes max(x, 0) to input 0."));
  relu.is_cheap_to_repeat = true;
  registry.add(with_gradient(std::move(relu), unary_gradient("ReluGrad", Saved::Output)));
  registry.add(same_shape_def(
      "ReluGrad", "For inputs g, out: g where out > 0, else 0.", 2,
      [](const Op&, Inputs in) { return select(0.0 < in[1], in[0], in[0].constant(0.0)); }));

  add_activation(registry, "Gelu", "0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))", gelu,
                 Saved::Input);
  add_gradient(registry, "GeluGrad",
               "For inputs g, x: g times the derivative of the tanh form of gelu at x.", gelu_grad);

  add_activation(
      registry, "GeluErf", "0.5 x (1 + erf(x / sqrt 2))",
      [](Scalar x) { return x * normal_cdf(x); }, Saved::Input);
  add_gradient(registry, "GeluErfGrad",
               "For inputs g, x: g (Phi(x) + x phi(x)) with the standard normal Phi and phi.",
               gelu_erf_grad);

  add_activation(
      registry, "Swish", "x sigmoid(x)", [](Scalar x) { return x * sigmoid(x); }, Saved::Input);
  add_gradient(registry, "SwishGrad", "For inputs g, x: g (s + x s (1 - s)) with s = sigmoid(x).",
               [](Scalar g, Scalar x) {
                 const Scalar s = sigmoid(x);
                 return g * (s + x * s * (1.0 - s));
               });

  add_activation(
      registry, "Sigmoid", "1 / (1 + e^-x)", [](Scalar x) { return sigmoid(x); }, Saved::Output);
  add_gradient(registry, "SigmoidGrad", "g out (1 - out) for inputs g, out.",
               [](Scalar g, Scalar out) { return g * out * (1.0 - out); });

  OpDef tanh_def = float_unary_def("Tanh", "tanh x of input 0.", [](Scalar x) { return tanh(x); });
  registry.add(with_gradient(std::move(tanh_def), unary_gradient("TanhGrad", Saved::Output)));
  add_gradient(registry, "TanhGrad", "g (1 - out^2) for inputs g, out.",
               [](Scalar g, Scalar out) { return g * (1.0 - out * out); });
}

}  // namespace pando
