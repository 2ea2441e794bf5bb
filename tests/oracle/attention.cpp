// Attention with every score written out.
#include <algorithm>
#include <cmath>
#include <limits>

#include "pando/base/philox.hpp"
#include "tests/oracle/rules.hpp"

namespace pando::oracle {
namespace {

constexpr Number kInfinity = std::numeric_limits<Number>::infinity();

/// The weights of one query, and what they are made of.
struct QueryWeights {
  std::vector<Number> weights;  // of every key; 0 where it is not seen
  std::vector<Number> kept;     // the factors of dropout
  Number log_sum_exp = -kInfinity;
};

class Attention {
 public:
  /// `q` and `mask`: the indices of the inputs q (k and v follow) and mask (seed and length
  /// follow).
  Attention(const Op& op, const Inputs& in, std::size_t q, std::size_t mask)
      : op_(op), q_(*in[q]), k_(*in[q + 1]), v_(*in[q + 2]), mask_(at(in, mask)) {
    seed_ = at(in, mask + 1);
    rows = q_.shape[q_.shape.size() - 2];
    keys = k_.shape[k_.shape.size() - 2];
    depth = q_.shape.back();
    value_depth = v_.shape.back();
    heads = q_.shape.size() > 2 ? q_.shape[q_.shape.size() - 3] : 1;
    kv_heads = q_.shape.size() > 2 ? k_.shape[k_.shape.size() - 3] : 1;
    scale = static_cast<float>(
        op.attributes.number_or("scale", 1 / std::sqrt(static_cast<double>(depth))));
    length = keys;
    if (const Array* given = at(in, mask + 2)) {
      length =
          static_cast<std::int64_t>(std::clamp((*given)[0], Number{0}, static_cast<Number>(keys)));
    }
    scores_shape = q_.shape;
    scores_shape.back() = keys;
  }

  std::int64_t rows, keys, depth, value_depth, heads, kv_heads, length;
  Number scale;
  Shape scores_shape;

  std::int64_t queries() const { return q_.size() / depth; }
  /// Of a query among all: its head of k and v among all.
  std::int64_t kv_of(std::int64_t query) const {
    const std::int64_t head = query / rows;
    return head / heads * kv_heads + head % heads / (heads / kv_heads);
  }
  /// Positions of the first element of a row of k or v.
  std::int64_t key_row(std::int64_t query, std::int64_t key) const {
    return kv_of(query) * keys + key;
  }

  bool sees(std::int64_t query, std::int64_t key) const {
    const bool at_end =
        op_.attributes.has("alignment") && op_.attributes.text("alignment") == "bottom_right";
    const std::int64_t distance = key - query % rows - (at_end ? length - rows : 0);
    if (key >= length) return false;
    if (!op_.attributes.has("window")) return true;
    const Ints& window = op_.attributes.ints("window");
    return (window[0] < 0 || distance >= -window[0]) && (window[1] < 0 || distance <= window[1]);
  }

  QueryWeights weights_of(std::int64_t query) const {
    QueryWeights result;
    Number largest = -kInfinity, sum = 0;
    for (std::int64_t key = 0; key < keys; ++key) {
      result.weights.push_back(sees(query, key) ? score(query, key) : -kInfinity);
      result.kept.push_back(keep_factor(query * keys + key));
      largest = std::max(largest, result.weights.back());
    }
    for (Number& x : result.weights) {
      x = largest == -kInfinity ? 0 : std::exp(x - largest);
      sum += x;
    }
    for (Number& x : result.weights) x = sum == 0 ? 0 : x / sum;
    if (sum > 0) result.log_sum_exp = largest + std::log(sum);
    return result;
  }

  const Array& q() const { return q_; }
  const Array& k() const { return k_; }
  const Array& v() const { return v_; }

 private:
  static const Array* at(const Inputs& in, std::size_t i) {
    return i < in.size() ? in[i] : nullptr;
  }

  Number score(std::int64_t query, std::int64_t key) const {
    Number sum = 0;
    for (std::int64_t i = 0; i < depth; ++i) {
      sum += q_[query * depth + i] * k_[key_row(query, key) * depth + i];
    }
    sum *= scale;
    if (mask_ == nullptr) return sum;
    const Shape index = index_at(scores_shape, query * keys + key);
    const Number mask = (*mask_)[broadcast_position(mask_->shape, index)];
    if (mask_->dtype != DType::Bool) return sum + mask;
    return mask != 0 ? sum : -kInfinity;
  }

  Number keep_factor(std::int64_t element) const {
    const double p = op_.attributes.number_or("p", 0);
    if (p == 0) return 1;
    const std::uint32_t word = philox_word(
        static_cast<std::uint32_t>((*seed_)[0]), static_cast<std::uint32_t>((*seed_)[1]),
        static_cast<std::uint32_t>(element), static_cast<std::uint32_t>(PhiloxStream::Dropout));
    return word >= std::round(p * 0x1p32) ? 1.0f / (1.0f - static_cast<float>(p)) : 0.0L;
  }

  const Op& op_;
  const Array &q_, &k_, &v_;
  const Array *mask_, *seed_ = nullptr;
};

void attention(const Op& op, const Inputs& in, std::vector<Array>& out) {
  const Attention attention(op, in, 0, 3);
  for (std::int64_t query = 0; query < attention.queries(); ++query) {
    const QueryWeights row = attention.weights_of(query);
    out[1][query] = row.log_sum_exp;
    for (std::int64_t key = 0; key < attention.keys; ++key) {
      const auto j = static_cast<std::size_t>(key);
      if (row.weights[j] == 0) continue;
      for (std::int64_t i = 0; i < attention.value_depth; ++i) {
        out[0][query * attention.value_depth + i] +=
            row.weights[j] * row.kept[j] *
            attention.v()[attention.key_row(query, key) * attention.value_depth + i];
      }
    }
  }
}

/// dw = g v^T * kept, ds = w * (dw - g out), dq = scale * ds k, dk = scale * ds^T q,
/// dv = (w * kept)^T g, from weights made anew. g out is sum(w * dw), but for the rounding of out.
void attention_grad(const Op& op, const Inputs& in, std::vector<Array>& out) {
  const Attention attention(op, in, 1, 6);
  const Array &g = *in[0], &result = *in[4];
  const std::int64_t depth = attention.depth, value_depth = attention.value_depth;
  for (std::int64_t query = 0; query < attention.queries(); ++query) {
    const QueryWeights row = attention.weights_of(query);
    std::vector<Number> gradients(row.weights.size());
    Number total = 0;
    for (std::int64_t i = query * value_depth; i < (query + 1) * value_depth; ++i) {
      total += g[i] * result[i];
    }
    for (std::int64_t key = 0; key < attention.keys; ++key) {
      const auto j = static_cast<std::size_t>(key);
      if (row.weights[j] == 0) continue;
      const std::int64_t value = attention.key_row(query, key) * value_depth;
      for (std::int64_t i = 0; i < value_depth; ++i) {
        const Number slope = g[query * value_depth + i];
        gradients[j] += slope * attention.v()[value + i];
        out[2][value + i] += row.weights[j] * row.kept[j] * slope;
      }
      gradients[j] *= row.kept[j];
    }
    for (std::int64_t key = 0; key < attention.keys; ++key) {
      const auto j = static_cast<std::size_t>(key);
      const Number ds = row.weights[j] * in.difference(gradients[j], total);
      if (out.size() > 3) out[3][query * attention.keys + key] = ds;
      const std::int64_t at = attention.key_row(query, key) * depth;
      for (std::int64_t i = 0; i < depth; ++i) {
        out[0][query * depth + i] += attention.scale * ds * attention.k()[at + i];
        out[1][at + i] += attention.scale * ds * attention.q()[query * depth + i];
      }
    }
  }
}

}  // namespace

void add_attention_rules(RuleTable& table) {
  table.add("ScaledDotProductAttention", attention);
  table.add("ScaledDotProductAttentionGrad", attention_grad);
}

}  // namespace pando::oracle
