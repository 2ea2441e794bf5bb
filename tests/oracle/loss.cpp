// Negative log-likelihood losses.
#include <algorithm>
#include <cmath>

#include "tests/oracle/rules.hpp"

namespace pando::oracle {
namespace {

constexpr Number kHalfSmallest = 6.104e-5L;

/// Labels of a loss with what the reduction does to each.
struct Labels {
  const Op& op;
  const Array& labels;
  std::int64_t classes;

  bool ignored(std::int64_t i) const {
    return op.attributes.has("ignore_index") &&
           labels[i] == static_cast<Number>(op.attributes.integer("ignore_index"));
  }
  bool in_range(std::int64_t i) const {
    return labels[i] >= 0.0L && labels[i] < static_cast<Number>(classes);
  }
  std::int64_t position(std::int64_t i) const {
    return i * classes + static_cast<std::int64_t>(labels[i]);
  }
  /// Factor of every label's loss and gradient.
  Number scale() const {
    if (op.attributes.text("reduction") != "mean") return 1.0L;
    std::int64_t kept = 0;
    for (std::int64_t i = 0; i < labels.size(); ++i) kept += !ignored(i);
    return 1.0L / static_cast<Number>(std::max<std::int64_t>(kept, 1));
  }
};

void add_loss(const Labels& labels, std::int64_t i, Number loss, Array& out) {
  if (labels.op.attributes.text("reduction") == "none") {
    out[i] = loss;
  } else {
    out[0] += loss * labels.scale();
  }
}

Number gradient_of_loss(const Array* g, std::int64_t i) {
  if (g == nullptr) return 1.0L;
  return g->size() == 1 ? (*g)[0] : (*g)[i];
}

void nll(const Op& op, const Inputs& in, std::vector<Array>& out) {
  const Array& probs = *in[0];
  const Labels labels{op, *in[1], probs.shape.back()};
  const Number smallest = probs.dtype == DType::Float16 ? kHalfSmallest : 1e-7L;
  for (std::int64_t i = 0; i < in[1]->size(); ++i) {
    if (labels.ignored(i)) continue;
    const Number p = labels.in_range(i) ? probs[labels.position(i)] : 0.0L;
    const bool log_prob = op.attributes.flag_or("log_prob", false);
    add_loss(labels, i, log_prob ? -p : -std::log(std::max(p, smallest)), out[0]);
  }
}

void nll_grad(const Op& op, const Inputs& in, std::vector<Array>& out) {
  const Array& probs = *in[1];
  const Labels labels{op, *in[2], probs.shape.back()};
  const Number smallest = probs.dtype == DType::Float16 ? kHalfSmallest : 1e-10L;
  for (std::int64_t i = 0; i < in[2]->size(); ++i) {
    if (labels.ignored(i) || !labels.in_range(i)) continue;
    const std::int64_t at = labels.position(i);
    const bool log_prob = op.attributes.flag_or("log_prob", false);
    const Number slope = log_prob ? -1.0L : -1.0L / std::max(probs[at], smallest);
    out[0][at] = gradient_of_loss(in[0], i) * labels.scale() * slope;
  }
}

Array softmax_of_rows(Array rows) {
  const std::int64_t classes = rows.shape.back();
  for (std::int64_t begin = 0; begin < rows.size(); begin += classes) {
    Number most = rows[begin], total = 0.0L;
    for (std::int64_t i = begin; i < begin + classes; ++i) most = std::max(most, rows[i]);
    for (std::int64_t i = begin; i < begin + classes; ++i) {
      total += rows[i] = std::exp(rows[i] - most);
    }
    for (std::int64_t i = begin; i < begin + classes; ++i) rows[i] /= total;
  }
  return rows;
}

void nll_with_softmax_grad(const Op& op, const Inputs& in, std::vector<Array>& out) {
  const bool from_scores = op.attributes.flag_or("from_scores", false);
  const Array probs = from_scores ? softmax_of_rows(*in[0]) : *in[0];
  const Labels labels{op, *in[1], probs.shape.back()};
  const Array* g = in.size() > 2 ? in[2] : nullptr;
  for (std::int64_t i = 0; i < in[1]->size(); ++i) {
    if (labels.ignored(i)) continue;
    const std::int64_t hot = labels.in_range(i) ? labels.position(i) : -1;
    const Number p = hot >= 0 ? probs[hot] : 0.0L;
    add_loss(labels, i, -std::log(p + 1e-7L), out[0]);
    const Number factor = gradient_of_loss(g, i) * labels.scale();
    for (std::int64_t at = i * labels.classes; at < (i + 1) * labels.classes; ++at) {
      out[1][at] = (probs[at] - (at == hot ? 1.0L : 0.0L)) * factor;
    }
  }
}

}  // namespace

void add_loss_rules(RuleTable& table) {
  table.add("Nll", nll);
  table.add("NllGrad", nll_grad);
  table.add("NlllWithSoftmaxGradDirect", nll_with_softmax_grad);
}

}  // namespace pando::oracle
