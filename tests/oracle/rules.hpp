// What the reference executor knows about op kinds: one plain rule each.
#pragma once

#include <cmath>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "pando/ir/op.hpp"
#include "tests/oracle/array.hpp"

namespace pando::oracle {

/// Inputs by op index, nullptr where nothing is connected.
struct Inputs : std::vector<const Array*> {
  using std::vector<const Array*>::vector;

  /// Whether the reference rounds (see OracleOptions); rules then round intermediate results.
  bool round_floats = true;
  /// Whether the rule is asked for sums of absolute terms (see add_sum_error): differences are
  /// sums.
  bool absolute = false;
  Number difference(Number a, Number b) const {
    return absolute ? std::fabs(a) + std::fabs(b) : a - b;
  }
  /// An intermediate result of `dtype`.
  Number step(Number x, DType dtype) const {
    return round_floats || !is_floating_point(dtype) ? rounded(x, dtype) : x;
  }
};
/// In what kernels sum elements of a dtype: float16 and bfloat16 in float32.
inline DType sum_dtype(DType dtype) { return is_half_precision(dtype) ? DType::Float32 : dtype; }

/// Computes the outputs, which come zeroed with their shapes and dtypes. Results are rounded to
/// their dtypes by the caller. In-place ops give the new value of what they write. Inputs that are
/// written but are no output follow the outputs, with their old values.
using Rule = std::function<void(const Op&, const Inputs&, std::vector<Array>&)>;
/// For an op whose output only rearranges input 0: the input position of every output element.
using Rearrangement = std::function<std::vector<std::int64_t>(const Op&)>;

struct RuleTable {
  std::unordered_map<std::string, Rule> rules;
  std::unordered_map<std::string, Rearrangement> rearrangements;

  /// The same rule under the name and its in-place form `<name>Inplace`.
  void add(const std::string& name, Rule rule);
  const Rule* find(const std::string& kind) const;
  const Rearrangement* find_rearrangement(const std::string& kind) const;
};

void add_pointwise_rules(RuleTable& table);
void add_pointwise_gradient_rules(RuleTable& table);
void add_operand_gradient_rules(RuleTable& table);
void add_shape_rules(RuleTable& table);
void add_reduction_rules(RuleTable& table);
void add_reduction_gradient_rules(RuleTable& table);
void add_matmul_rules(RuleTable& table);
void add_conv_rules(RuleTable& table);
void add_pool_rules(RuleTable& table);
void add_norm_rules(RuleTable& table);
void add_loss_rules(RuleTable& table);
void add_attention_rules(RuleTable& table);
void add_index_rules(RuleTable& table);
void add_sort_rules(RuleTable& table);
void add_random_rules(RuleTable& table);
void add_optimizer_rules(RuleTable& table);
void add_adam_rules(RuleTable& table);
void add_sparse_rules(RuleTable& table);
void add_all_reduce_rules(RuleTable& table);
void add_resample_rules(RuleTable& table);
void add_pad_rules(RuleTable& table);
void add_grouped_matmul_rules(RuleTable& table);
void add_linear_algebra_rules(RuleTable& table);
void add_ctc_rules(RuleTable& table);
void add_recurrent_rules(RuleTable& table);

const RuleTable& rule_table();

// Formulas that several families use.
Number sigmoid(Number x);
/// The approximation with tanh.
Number gelu(Number x);
/// A number from scalar input `index`, else from attribute `name`, else `fallback`.
Number scalar_or(const Op& op, const Inputs& in, std::size_t index, std::string_view name,
                 double fallback);

}  // namespace pando::oracle
