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

/// Floats outside an integer dtype become the end of its range, and NaN 0.
void cast(const Op&, const Inputs& in, std::vector<Array>& out) {
  const DType dtype = out[0].dtype;
  const bool limits = is_integer(dtype) && is_floating_point(in[0]->dtype);
  const int bits = static_cast<int>(8 * dtype_bytes(dtype));
  const bool is_signed = traits(dtype).is_signed;
  const Number last = std::ldexp(1.0L, is_signed ? bits - 1 : bits) - 1.0L;
  for (std::int64_t i = 0; i < out[0].size(); ++i) {
    const Number x = (*in[0])[i];
    out[0][i] = x;
    if (limits && std::isnan(x)) out[0][i] = 0.0L;
    if (limits && x > last) out[0][i] = last;
    if (limits && x < (is_signed ? -1.0L - last : 0.0L)) out[0][i] = is_signed ? -1.0L - last : 0;
  }
}

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
      {"Log1p", [](Number x) { return std::log1p(x); }},
      {"Expm1", [](Number x) { return std::expm1(x); }},
      {"Atan", [](Number x) { return std::atan(x); }},
      {"Erf", [](Number x) { return std::erf(x); }},
      {"Erfc", [](Number x) { return std::erfc(x); }},
      {"Tanh", [](Number x) { return std::tanh(x); }},
      {"Sigmoid", sigmoid},
      {"Relu", [](Number x) { return larger(x, 0.0L); }},
      {"Gelu", gelu},
      {"GeluErf", gelu_erf},
      {"Swish", [](Number x) { return x * sigmoid(x); }},
      {"Not", [](Number x) { return Number(x == 0.0L); }},
      {"IsNaN", [](Number x) { return Number(std::isnan(x)); }},
      {"IsInf", [](Number x) { return Number(std::isinf(x)); }},
      {"PrintTensor", [](Number x) { return x; }},
      {"CheckRange", [](Number x) { return x; }},
  };
  for (const auto& [name, formula] : formulas) table.add(name, unary(formula));
  table.add("Cast", cast);
}

/// Modulo 2^64, whose low bits every integer dtype keeps. Negative powers truncate toward zero.
Number integer_power(Number base, Number exponent) {
  if (exponent < 0.0L) {
    if (base == 0.0L) return 0.0L;
    return std::trunc(std::pow(base, exponent));
  }
  std::uint64_t result = 1;
  const auto factor = static_cast<std::uint64_t>(base < 0.0L ? base + 0x1p64L : base);
  for (Number left = exponent; left > 0.0L; left -= 1.0L) result *= factor;
  return static_cast<Number>(result);
}

void add_binary(RuleTable& table) {
  const std::pair<const char*, Binary> formulas[] = {
      {"Add", [](Number a, Number b) { return a + b; }},
      {"Sub", [](Number a, Number b) { return a - b; }},
      {"Mul", [](Number a, Number b) { return a * b; }},
      {"Equal", [](Number a, Number b) { return Number(a == b); }},
      {"Greater", [](Number a, Number b) { return Number(a > b); }},
      {"And", [](Number a, Number b) { return Number(a != 0.0L && b != 0.0L); }},
      {"Or", [](Number a, Number b) { return Number(a != 0.0L || b != 0.0L); }},
  };
  for (const auto& [name, formula] : formulas) table.add(name, binary(formula));
  table.add("Pow", [](const Op&, const Inputs& in, std::vector<Array>& out) {
    const bool whole = is_integer(out[0].dtype);
    for_each_element(out[0].shape, [&](std::int64_t i, const Shape& index) {
      const Number a = element(*in[0], index), b = element(*in[1], index);
      out[0][i] = whole ? integer_power(a, b) : std::pow(a, b);
    });
  });
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
    const DType dtype = is_half_precision(out[0].dtype) ? DType::Float32 : out[0].dtype;
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
