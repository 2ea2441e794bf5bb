// In-place variable updates.
#include <algorithm>
#include <cmath>

#include "pando/base/error.hpp"
#include "tests/oracle/rules.hpp"

namespace pando::oracle {
namespace {

/// The plain additions round once at the end; the others work in t's dtype and round every step.
Number accumulated(const Op& op, const Inputs& in, DType dtype, Number t, Number x, Number f) {
  const std::string& type = op.attributes.text("type");
  if (type == "Add" || type == "DampenedAdd") return t + f * x;
  if (type == "DecayAdd") return f * t + x;
  if (type == "Mean") {
    const Number b = 1.0L / (f + 1.0L);
    return (1.0L - b) * t + b * x;
  }
  const auto step = [&in, dtype](Number value) { return in.step(value, dtype); };
  const Number rest = step(in.step(1.0L - f, DType::Float32));
  x = step(x);
  f = step(f);
  if (type == "DampenedAddSquare") return t + step(step(f * x) * x);
  if (type == "DecayAddSquare") return step(f * t) + step(x * x);
  if (type == "Infinity") return std::max(step(f * t), std::fabs(x));
  if (type == "MovingAverage") return step(f * t) + step(rest * x);
  if (type == "MovingAverageSquare") return step(f * t) + step(step(rest * x) * x);
  throw NotSupported(str_cat("the reference has no accumulation type ", type));
}

void accumulate(const Op& op, const Inputs& in, std::vector<Array>& out) {
  const Number f = scalar_or(op, in, 2, "factor", 1.0);
  for (std::int64_t i = 0; i < out[0].size(); ++i) {
    out[0][i] = accumulated(op, in, out[0].dtype, (*in[0])[i], (*in[1])[i], f);
  }
}

void accumulator_scale(const Op& op, const Inputs& in, std::vector<Array>& out) {
  const bool has_tensor = in.size() > 1 && in[1] != nullptr;
  const Number constant =
      has_tensor ? 0.0L : Number{static_cast<float>(op.attributes.number("factor"))};
  for_each_element(out[0].shape, [&](std::int64_t i, const Shape& index) {
    const Number f = has_tensor ? (*in[1])[broadcast_position(in[1]->shape, index)] : constant;
    out[0][i] = !has_tensor && f == 0.0L ? 0.0L : (*in[0])[i] * f;
  });
}

void scaled_add(const Op& op, const Inputs& in, std::vector<Array>& out) {
  const Number a = scalar_or(op, in, 2, "a", 1.0), b = scalar_or(op, in, 3, "b", 1.0);
  for (std::int64_t i = 0; i < out[0].size(); ++i) out[0][i] = a * (*in[0])[i] + b * (*in[1])[i];
}

}  // namespace

void add_optimizer_rules(RuleTable& table) {
  table.add("Accumulate", accumulate);
  table.add("AccumulatorScale", accumulator_scale);
  table.add("CopyVarUpdate", [](const Op&, const Inputs& in, std::vector<Array>& out) {
    out[0].data = in[1]->data;
  });
  table.add("ScaledAdd", scaled_add);
  table.rules["ScaledAddLhsInplace"] = scaled_add;
  table.rules["AddLhsInplace"] = *table.find("Add");
  // What AdamUpdater is made of: the increment of its step is an AddLhsInplace.
  table.add("AdamBiasCorrection", [](const Op& op, const Inputs& in, std::vector<Array>& out) {
    const Number beta = scalar_or(op, in, 1, "beta", 0.0);
    out[0][0] = 1.0L - std::pow(beta, (*in[0])[0]);
  });
  table.add("AdamUpdaterCore", [](const Op& op, const Inputs& in, std::vector<Array>& out) {
    const auto scalar = [&](std::size_t i) {
      return i < in.size() && in[i] != nullptr ? (*in[i])[0] : Number{1.0L};
    };
    const Number epsilon = scalar_or(op, in, 6, "epsilon", 1e-7);
    const Number decay = scalar_or(op, in, 5, "weight_decay", 0.0);
    const bool adamax = op.attributes.text("mode") == "AdaMax";
    for (std::int64_t i = 0; i < out[0].size(); ++i) {
      const Number m = in.step((*in[1])[i] / scalar(3), in[1]->dtype);
      const Number v = in.step((*in[2])[i] / scalar(4), in[2]->dtype);
      out[0][i] = m / ((adamax ? v : std::sqrt(v)) + epsilon);
      if (decay != 0.0L) out[0][i] += decay * (*in[0])[i];
    }
  });
}

}  // namespace pando::oracle
