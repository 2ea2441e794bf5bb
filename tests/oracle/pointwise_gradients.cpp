// Gradients of elementwise ops that are ops of their own: inputs g and what the rule saved.
#include <cmath>
#include <numbers>

#include "tests/oracle/rules.hpp"

namespace pando::oracle {
namespace {

using Formula = Number (*)(Number g, Number saved);

Number gelu_slope(Number x) {
  const Number scale = std::sqrt(2.0L / std::numbers::pi_v<Number>);
  const Number t = std::tanh(scale * (x + 0.044715L * x * x * x));
  return 0.5L * (1.0L + t) + 0.5L * x * (1.0L - t * t) * scale * (1.0L + 3.0L * 0.044715L * x * x);
}

Number gelu_erf_slope(Number x) {
  const Number density = std::exp(-0.5L * x * x) / std::sqrt(2.0L * std::numbers::pi_v<Number>);
  return 0.5L * (1.0L + std::erf(x / std::sqrt(2.0L))) + x * density;
}

Number erf_slope(Number x) {
  return 2.0L / std::sqrt(std::numbers::pi_v<Number>) * std::exp(-x * x);
}

Number swish_slope(Number x) {
  const Number s = sigmoid(x);
  return s + x * s * (1.0L - s);
}

}  // namespace

void add_pointwise_gradient_rules(RuleTable& table) {
  const std::pair<const char*, Formula> formulas[] = {
      {"AbsGrad", [](Number g, Number x) { return g * Number((x > 0.0L) - (x < 0.0L)); }},
      {"ExpGrad", [](Number g, Number out) { return g * out; }},
      {"LogGrad", [](Number g, Number x) { return g / x; }},
      {"SqrtGrad", [](Number g, Number out) { return g / (2.0L * out); }},
      {"SinGrad", [](Number g, Number x) { return g * std::cos(x); }},
      {"CosGrad", [](Number g, Number x) { return -g * std::sin(x); }},
      {"Log1pGrad", [](Number g, Number x) { return g / (1.0L + x); }},
      {"Expm1Grad", [](Number g, Number out) { return g * (out + 1.0L); }},
      {"AtanGrad", [](Number g, Number x) { return g / (1.0L + x * x); }},
      {"ErfGrad", [](Number g, Number x) { return g * erf_slope(x); }},
      {"ErfcGrad", [](Number g, Number x) { return -g * erf_slope(x); }},
      {"ReluGrad", [](Number g, Number out) { return out > 0.0L ? g : 0.0L; }},
      {"GeluGrad", [](Number g, Number x) { return g * gelu_slope(x); }},
      {"GeluErfGrad", [](Number g, Number x) { return g * gelu_erf_slope(x); }},
      {"SwishGrad", [](Number g, Number x) { return g * swish_slope(x); }},
      {"SigmoidGrad", [](Number g, Number out) { return g * out * (1.0L - out); }},
      {"TanhGrad", [](Number g, Number out) { return g * (1.0L - out * out); }},
  };
  for (const auto& [name, formula] : formulas) {
    table.add(name, [formula](const Op&, const Inputs& in, std::vector<Array>& out) {
      for (std::int64_t i = 0; i < out[0].size(); ++i) {
        out[0][i] = formula((*in[0])[i], (*in[1])[i]);
      }
    });
  }
  table.add("NegGrad", [](const Op&, const Inputs& in, std::vector<Array>& out) {
    for (std::int64_t i = 0; i < out[0].size(); ++i) out[0][i] = -(*in[0])[i];
  });
  table.add("UnaryZeroGrad", [](const Op&, const Inputs&, std::vector<Array>&) {});
  table.add("CastGrad", [](const Op&, const Inputs& in, std::vector<Array>& out) {
    out[0].data = in[0]->data;
  });
}

}  // namespace pando::oracle
