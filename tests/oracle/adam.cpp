// Adam, LAMB and AdaMax: what comes from the moments, and the step of LAMB.
#include <algorithm>
#include <cmath>

#include "tests/oracle/rules.hpp"

namespace pando::oracle {
namespace {

bool is_given(const Inputs& in, std::size_t index) {
  return index < in.size() && in[index] != nullptr;
}

/// Inputs weight, m, v, step, weight_decay, beta1, beta2, epsilon. The step grows by 1 first. The
/// corrections are rounded to the dtype of their moment, and so are the corrected moments.
void adam_updater(const Op& op, const Inputs& in, std::vector<Array>& out) {
  const Array &m = *in[1], &v = *in[2];
  const bool adamax = op.attributes.text("mode") == "AdaMax";
  Number first = 1.0L, second = 1.0L;
  if (is_given(in, 3)) {
    Number& step = out[1][0];
    step = in.step(step + 1.0L, in[3]->dtype);
    first = in.step(1.0L - std::pow(scalar_or(op, in, 5, "beta1", 0.0), step), m.dtype);
    if (!adamax) {
      second = in.step(1.0L - std::pow(scalar_or(op, in, 6, "beta2", 0.0), step), v.dtype);
    }
  }
  const Number decay = scalar_or(op, in, 4, "weight_decay", 0.0);
  const Number epsilon = scalar_or(op, in, 7, "epsilon", 1e-7);
  for (std::int64_t i = 0; i < out[0].size(); ++i) {
    const Number corrected = in.step(in.step(m[i] / first, m.dtype), v.dtype);
    const Number spread = adamax ? v[i] : std::sqrt(in.step(v[i] / second, v.dtype));
    out[0][i] = corrected / (spread + epsilon);
    if (decay != 0.0L) out[0][i] += decay * (*in[0])[i];
  }
}

/// learning_rate * ratio, from inputs r1, r2, learning_rate, max_weight_norm starting at `first`.
Number lamb_rate(const Op& op, const Inputs& in, std::size_t first) {
  const Number r1 = (*in[first])[0], r2 = (*in[first + 1])[0];
  const std::size_t limit = first + 3;
  Number norm = std::sqrt(r1);
  bool degenerate = r1 == 0.0L || r2 == 0.0L;
  if (is_given(in, limit) || op.attributes.has("max_weight_norm")) {
    const Number most = scalar_or(op, in, limit, "max_weight_norm", 0.0);
    norm = std::min(norm, most);
    degenerate = degenerate || most == 0.0L;
  }
  const Number ratio = degenerate ? 1.0L : norm / std::sqrt(r2);
  return scalar_or(op, in, first + 2, "learning_rate", 0.0) * ratio;
}

void adam_var_update(const Op& op, const Inputs& in, std::vector<Array>& out) {
  const Number rate = lamb_rate(op, in, 2);
  for (std::int64_t i = 0; i < out[0].size(); ++i) out[0][i] = (*in[0])[i] - rate * (*in[1])[i];
}

}  // namespace

void add_adam_rules(RuleTable& table) {
  table.add("AdamUpdater", adam_updater);
  table.add("AdamVarUpdate", adam_var_update);
  table.add("LambScale", [](const Op& op, const Inputs& in, std::vector<Array>& out) {
    out[0][0] = -lamb_rate(op, in, 0);
  });
}

}  // namespace pando::oracle
