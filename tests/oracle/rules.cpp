#include "tests/oracle/rules.hpp"

#include <cmath>
#include <numbers>

namespace pando::oracle {

void RuleTable::add(const std::string& name, Rule rule) {
  rules[name + "Inplace"] = rule;
  rules[name] = std::move(rule);
}

const Rule* RuleTable::find(const std::string& kind) const {
  const auto it = rules.find(kind);
  return it == rules.end() ? nullptr : &it->second;
}

const Rearrangement* RuleTable::find_rearrangement(const std::string& kind) const {
  const auto it = rearrangements.find(kind);
  return it == rearrangements.end() ? nullptr : &it->second;
}

const RuleTable& rule_table() {
  static const RuleTable table = [] {
    RuleTable result;
    add_pointwise_rules(result);
    add_pointwise_gradient_rules(result);
    add_operand_gradient_rules(result);
    add_shape_rules(result);
    add_reduction_rules(result);
    add_reduction_gradient_rules(result);
    add_matmul_rules(result);
    add_conv_rules(result);
    add_pool_rules(result);
    add_norm_rules(result);
    add_loss_rules(result);
    add_attention_rules(result);
    add_index_rules(result);
    add_sort_rules(result);
    add_random_rules(result);
    add_optimizer_rules(result);
    add_adam_rules(result);
    add_sparse_rules(result);
    add_all_reduce_rules(result);
    add_resample_rules(result);
    add_pad_rules(result);
    add_grouped_matmul_rules(result);
    add_linear_algebra_rules(result);
    add_ctc_rules(result);
    add_recurrent_rules(result);
    return result;
  }();
  return table;
}

Number sigmoid(Number x) {
  if (x >= 0.0L) return 1.0L / (1.0L + std::exp(-x));
  const Number e = std::exp(x);
  return e / (1.0L + e);
}

Number gelu(Number x) {
  const Number inner = std::sqrt(2.0L / std::numbers::pi_v<Number>) * (x + 0.044715L * x * x * x);
  return 0.5L * x * (1.0L + std::tanh(inner));
}

Number scalar_or(const Op& op, const Inputs& in, std::size_t index, std::string_view name,
                 double fallback) {
  if (index < in.size() && in[index] != nullptr) return (*in[index])[0];
  return static_cast<float>(op.attributes.number_or(name, fallback));
}

}  // namespace pando::oracle
