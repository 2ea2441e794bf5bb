// Gradients of the operands of broadcasting ops: input 0 is the gradient of the result, and what
// reaches an operand is summed to its shape.
#include <cmath>

#include "tests/oracle/rules.hpp"

namespace pando::oracle {
namespace {

/// What one element of the result gives to the operand: `v` are the inputs' values there.
using Share = Number (*)(const std::vector<Number>& v);

Rule summed(Share share) {
  return [share](const Op&, const Inputs& in, std::vector<Array>& out) {
    std::vector<Number> values(in.size());
    for_each_element(in[0]->shape, [&](std::int64_t, const Shape& index) {
      for (std::size_t k = 0; k < in.size(); ++k) {
        values[k] = (*in[k])[broadcast_position(in[k]->shape, index)];
      }
      out[0][broadcast_position(out[0].shape, index)] += share(values);
    });
  };
}

Number base_share(const std::vector<Number>& v) {
  const Number g = v[0], x = v[1], e = v[2];
  return e == 0.0L ? 0.0L : g * e * std::pow(x, e - 1.0L);
}

Number exponent_share(const std::vector<Number>& v) {
  const Number g = v[0], x = v[1], e = v[2], out = v[3];
  return g * (x == 0.0L && e >= 0.0L ? 0.0L : out * std::log(x));
}

}  // namespace

void add_operand_gradient_rules(RuleTable& table) {
  using Values = std::vector<Number>;
  for (const char* name : {"AddArg0Grad", "AddArg1Grad", "SubArg0Grad", "FmodArg0Grad"}) {
    table.add(name, summed([](const Values& v) { return v[0]; }));
  }
  table.add("SubArg1Grad", summed([](const Values& v) { return -v[0]; }));
  for (const char* name : {"MulArg0Grad", "MulArg1Grad"}) {
    table.add(name, summed([](const Values& v) { return v[0] * v[1]; }));
  }
  table.add("DivArg0Grad", summed([](const Values& v) { return v[0] / v[1]; }));
  table.add("DivArg1Grad", summed([](const Values& v) { return -v[0] * v[1] / (v[2] * v[2]); }));
  table.add("PowArg0Grad", summed(base_share));
  table.add("PowArg1Grad", summed(exponent_share));
  table.add("MaxArgGrad", summed([](const Values& v) { return v[1] == v[2] ? v[0] : 0.0L; }));
  table.add("WhereXGrad", summed([](const Values& v) { return v[1] != 0.0L ? v[0] : 0.0L; }));
  table.add("WhereYGrad", summed([](const Values& v) { return v[1] != 0.0L ? 0.0L : v[0]; }));
}

}  // namespace pando::oracle
