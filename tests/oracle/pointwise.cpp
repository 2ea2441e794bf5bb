// Elementwise arithmetic, comparison, logic, selection and casts.
#include <algorithm>
#include <cmath>

#include "tests/oracle/rules.hpp"

namespace pando::oracle {
namespace {

using Unary = Number (*)(Number);
using Binary = Number (*)(Number, Number);

Number element(const Array& array, const Shape& index) {
  return array[broadcast_position(array.shape, index)];
}

Rule unary(Unary formula) {
  return [formula](const Op&, const Inputs& in, std::vector<Array>& out) {
    for (std::int64_t i = 0; i < out[0].size(); ++i) out[0][i] = formula((*in[0])[i]);
  };
}

Rule binary(Binary formula) {
  return [formula](const Op&, const Inputs& in, std::vector<Array>& out) {
    for_each_element(out[0].shape, [&](std::int64_t i, const Shape& index) {
      out[0][i] = formula(element(*in[0], index), element(*in[1], index));
    });
  };
}

Rule fold(Binary combine) {
  return [combine](const Op&, const Inputs& in, std::vector<Array>& out) {
    for_each_element(out[0].shape, [&](std::int64_t i, const Shape& index) {
      Number value = element(*in[0], index);
      for (std::size_t k = 1; k < in.size(); ++k) value = combine(value, element(*in[k], index));
      out[0][i] = value;
    });
  };
}

Number sign(Number x) { return std::isnan(x) ? x : static_cast<Number>((x > 0) - (x < 0)); }

Number larger(Number a, Number b) {
  if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<Number>::quiet_NaN();
  return a > b ? a : b;
}

Number smaller(Number a, Number b) { return -larger(-a, -b); }

Number gelu_erf(Number x) { return 0.5L * x * (1.0L + std::erf(x / std::sqrt(2.0L))); }

void add_unary(RuleTable& table) {
  const std::pair<const char*, Unary> formulas[] = {
      {"Abs", [](Number x) { return std::fabs(x); }},
      {"Neg", [](Number x) { return -x; }},
      {"Sign", sign},
      {"Ceil", [](Number x) { return std::ceil(x); }},
      {"Floor", [](Number x) { return std::floor(x); }},
      {"Exp", [](Number x) { return std::exp(x); }},
      {"Log", [](Number x) { return std::log(x); }},
      {"Sqrt", [](Number x) { return std::sqrt(x); }},
      {"Sin", [](Number x) { return std::sin(x); }},
      {"Cos", [](Number x) { return std::cos(x); }},
      {"Tanh", [](Number x) { return std::tanh(x); }},
      {"Sigmoid", sigmoid},
      {"Relu", [](Number x) { return larger(x, 0.0L); }},
      {"Gelu", gelu},
      {"GeluErf", gelu_erf},
      {"Swish", [](Number x) { return x * sigmoid(x); }},
      {"Not", [](Number x) { return Number(x == 0.0L); }},
      {"IsNaN", [](Number x) { return Number(std::isnan(x)); }},
      {"IsInf", [](Number x) { return Number(std::isinf(x)); }},
      {"Cast", [](Number x) { return x; }},
      {"PrintTensor", [](Number x) { return x; }},
      {"CheckRange", [](Number x) { return x; }},
  };
  for (const auto& [name, formula] : formulas) table.add(name, unary(formula));
}

void add_binary(RuleTable& table) {
  const std::pair<const char*, Binary> formulas[] = {
      {"Add", [](Number a, Number b) { return a + b; }},
      {"Sub", [](Number a, Number b) { return a - b; }},
      {"Mul", [](Number a, Number b) { return a * b; }},
      {"Pow", [](Number a, Number b) { return std::pow(a, b); }},
      {"Equal", [](Number a, Number b) { return Number(a == b); }},
      {"Greater", [](Number a, Number b) { return Number(a > b); }},
      {"And", [](Number a, Number b) { return Number(a != 0.0L && b != 0.0L); }},
      {"Or", [](Number a, Number b) { return Number(a != 0.0L || b != 0.0L); }},
  };
  for (const auto& [name, formula] : formulas) table.add(name, binary(formula));
  table.add("Max", fold(larger));
  table.add("Sum", fold([](Number a, Number b) { return a + b; }));
}

/// Division and remainder: integers truncate, and a zero divisor gives 0.
void divide(const Inputs& in, Array& out, Number (*formula)(Number, Number)) {
  const bool whole = !is_floating_point(out.dtype);
  for_each_element(out.shape, [&](std::int64_t i, const Shape& index) {
    const Number a = element(*in[0], index), b = element(*in[1], index);
    out[i] = whole && b == 0.0L ? 0.0L : formula(a, b);
  });
}

void add_division(RuleTable& table) {
  table.add("Div", [](const Op&, const Inputs& in, std::vector<Array>& out) {
    divide(in, out[0], [](Number a, Number b) { return a / b; });
  });
  table.add("Fmod", [](const Op&, const Inputs& in, std::vector<Array>& out) {
    divide(in, out[0], [](Number a, Number b) { return std::fmod(a, b); });
  });
  table.add("IncrementMod", [](const Op& op, const Inputs& in, std::vector<Array>& out) {
    const DType dtype = out[0].dtype == DType::Float16 ? DType::Float32 : out[0].dtype;
    const Number increment = rounded(op.attributes.number("increment"), dtype);
    const Number modulus = rounded(op.attributes.number("modulus"), dtype);
    const bool whole = is_integer(dtype);
    for (std::int64_t i = 0; i < out[0].size(); ++i) {
      const Number sum = (*in[0])[i] + increment;
      out[0][i] = whole && modulus == 0.0L ? 0.0L : std::fmod(in.step(sum, dtype), modulus);
    }
  });
}

/// A limit of Clip in the clipped dtype. Those that float16 or an integer does not hold become its
/// largest or smallest value.
Number limit(const Op& op, const char* name, DType dtype) {
  const Number value = op.attributes.number(name);
  if (dtype == DType::Float16) return rounded(std::clamp(value, -65504.0L, 65504.0L), dtype);
  if (is_floating_point(dtype)) return rounded(value, dtype);
  const bool is_signed = traits(dtype).is_signed;
  const int digits = static_cast<int>(8 * dtype_bytes(dtype)) - (is_signed ? 1 : 0);
  const Number largest = std::ldexp(1.0L, digits) - 1.0L;
  return std::trunc(std::clamp(value, is_signed ? -largest - 1.0L : 0.0L, largest));
}

void add_selection(RuleTable& table) {
  table.add("Clip", [](const Op& op, const Inputs& in, std::vector<Array>& out) {
    const Number low = limit(op, "min", out[0].dtype), high = limit(op, "max", out[0].dtype);
    for (std::int64_t i = 0; i < out[0].size(); ++i) {
      out[0][i] = smaller(larger((*in[0])[i], low), high);
    }
  });
  table.add("ClipGrad", [](const Op& op, const Inputs& in, std::vector<Array>& out) {
    const Number low = limit(op, "min", out[0].dtype), high = limit(op, "max", out[0].dtype);
    for (std::int64_t i = 0; i < out[0].size(); ++i) {
      const Number clipped = (*in[1])[i];
      out[0][i] = clipped == low || clipped == high ? 0.0L : (*in[0])[i];
    }
  });
  table.add("Where", [](const Op&, const Inputs& in, std::vector<Array>& out) {
    for_each_element(out[0].shape, [&](std::int64_t i, const Shape& index) {
      out[0][i] = element(*in[element(*in[0], index) != 0.0L ? 1 : 2], index);
    });
  });
}

void add_float8(RuleTable& table) {
  const auto scale = [](const Op&, const Inputs& in, std::vector<Array>& out) {
    const int exponent = static_cast<int>((*in[1])[0]);
    for (std::int64_t i = 0; i < out[0].size(); ++i) {
      out[0][i] = std::ldexp((*in[0])[i], exponent);
    }
  };
  for (const char* name : {"Pow2ScaleThenCast", "CastThenPow2Scale", "Pow2Scale"}) {
    table.add(name, scale);
  }
}

}  // namespace

void add_pointwise_rules(RuleTable& table) {
  add_unary(table);
  add_binary(table);
  add_division(table);
  add_selection(table);
  add_float8(table);
  table.add("ScaleByScalar", [](const Op&, const Inputs& in, std::vector<Array>& out) {
    for (std::int64_t i = 0; i < out[0].size(); ++i) out[0][i] = (*in[0])[i] * (*in[1])[0];
  });
}

}  // namespace pando::oracle
