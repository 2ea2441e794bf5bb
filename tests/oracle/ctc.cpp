// Connectionist temporal classification by sums over paths.
#include <algorithm>
#include <cmath>
#include <map>

#include "tests/oracle/rules.hpp"

namespace pando::oracle {
namespace {

using Labels = std::vector<std::int64_t>;

struct Sample {
  Labels states;  // the labels with blanks between
  std::int64_t steps = 0;
  bool is_valid = true;
};

/// Inputs from `first` on: log probabilities, targets, their lengths in steps and labels.
Sample sample_of(const Op& op, const Inputs& in, std::size_t first, std::int64_t b) {
  const auto number = [&](std::size_t i, std::int64_t at) {
    return static_cast<std::int64_t>((*in[first + i])[at]);
  };
  const std::int64_t blank = op.attributes.integer("blank");
  Sample sample{{blank}, number(2, b), true};
  const std::int64_t labels = number(3, b), most = in[first + 1]->dim(1);
  sample.is_valid =
      sample.steps >= 0 && sample.steps <= in[first]->dim(0) && labels >= 0 && labels <= most;
  for (std::int64_t i = 0; sample.is_valid && i < labels; ++i) {
    const std::int64_t label = number(1, b * most + i);
    if (label < 0 || label >= in[first]->dim(2)) sample.is_valid = false;
    sample.states.push_back(label);
    sample.states.push_back(blank);
  }
  return sample;
}

bool may_follow(const Labels& states, std::size_t from, std::size_t to) {
  if (to == from || to == from + 1) return true;
  return to == from + 2 && to % 2 == 1 && states[to] != states[from];
}

/// Sum of the probabilities of all paths; with `at` >= 0 of those that are in class c at that step.
Number path_sum(const Sample& sample, const Array& log_probs, std::int64_t b, std::int64_t at = -1,
                std::int64_t c = 0) {
  const auto factor = [&](std::int64_t t, std::size_t s) {
    if (t == at && sample.states[s] != c) return 0.0L;
    const std::int64_t row = (t * log_probs.dim(1) + b) * log_probs.dim(2);
    return std::exp(log_probs[row + sample.states[s]]);
  };
  const std::size_t count = sample.states.size();
  std::vector<Number> sums(count, 0.0L);
  for (std::size_t s = 0; s < std::min<std::size_t>(count, 2) && sample.steps > 0; ++s) {
    sums[s] = factor(0, s);
  }
  if (sample.steps == 0) return count == 1 ? 1.0L : 0.0L;
  for (std::int64_t t = 1; t < sample.steps; ++t) {
    std::vector<Number> next(count, 0.0L);
    for (std::size_t from = 0; from < count; ++from) {
      for (std::size_t to = from; to < std::min(count, from + 3); ++to) {
        if (may_follow(sample.states, from, to)) next[to] += sums[from] * factor(t, to);
      }
    }
    sums = next;
  }
  return sums[count - 1] + (count > 1 ? sums[count - 2] : 0.0L);
}

void loss(const Op& op, const Inputs& in, std::vector<Array>& out) {
  for (std::int64_t b = 0; b < in[0]->dim(1); ++b) {
    const Sample sample = sample_of(op, in, 0, b);
    out[0][b] = std::numeric_limits<Number>::quiet_NaN();
    if (!sample.is_valid) continue;
    out[0][b] = -std::log(path_sum(sample, *in[0], b));
    if (std::isinf(out[0][b]) && op.attributes.flag("zero_infinity")) out[0][b] = 0.0L;
  }
}

void loss_grad(const Op& op, const Inputs& in, std::vector<Array>& out) {
  const std::int64_t batch = in[1]->dim(1), classes = in[1]->dim(2);
  for (std::int64_t b = 0; b < batch; ++b) {
    const Sample sample = sample_of(op, in, 1, b);
    const Number total = sample.is_valid ? path_sum(sample, *in[1], b) : 0.0L;
    const std::int64_t steps = sample.is_valid ? sample.steps : in[1]->dim(0);
    for (std::int64_t i = 0; i < steps * classes; ++i) {
      const std::int64_t t = i / classes, c = i % classes;
      Number& g = out[0][(t * batch + b) * classes + c];
      if (total > 0.0L) {
        g = -(*in[0])[b] * path_sum(sample, *in[1], b, t, c) / total;
      } else if (!sample.is_valid || !op.attributes.flag("zero_infinity")) {
        g = std::numeric_limits<Number>::quiet_NaN();
      }
    }
  }
}

/// Probabilities of the paths of a label sequence that end in a blank, and that do not.
struct Ending {
  Number blank = 0.0L, label = 0.0L;
  Number total() const { return blank + label; }
};

std::vector<std::pair<Labels, Ending>> best_paths(const Op& op, const Array& log_probs,
                                                  std::int64_t b, std::int64_t steps) {
  const std::int64_t blank = op.attributes.integer("blank"), classes = log_probs.dim(2);
  std::vector<std::pair<Labels, Ending>> beams = {{{}, {1.0L, 0.0L}}};
  for (std::int64_t t = 0; t < steps; ++t) {
    std::map<Labels, Ending> next;
    for (const auto& [labels, ending] : beams) {
      for (std::int64_t c = 0; c < classes; ++c) {
        const Number p = std::exp(log_probs[(t * log_probs.dim(1) + b) * classes + c]);
        if (c == blank) {
          next[labels].blank += ending.total() * p;
          continue;
        }
        const bool repeats = !labels.empty() && labels.back() == c;
        if (repeats) next[labels].label += ending.label * p;
        Labels longer = labels;
        longer.push_back(c);
        next[longer].label += (repeats ? ending.blank : ending.total()) * p;
      }
    }
    beams.assign(next.begin(), next.end());
    std::stable_sort(beams.begin(), beams.end(), [](const auto& x, const auto& y) {
      return x.second.total() > y.second.total();
    });
    const auto width = static_cast<std::size_t>(op.attributes.integer("beam_width"));
    if (beams.size() > width) beams.resize(width);
  }
  return beams;
}

void beam_search(const Op& op, const Inputs& in, std::vector<Array>& out) {
  const std::int64_t steps = in[0]->dim(0), paths = op.attributes.integer("top_paths");
  for (std::int64_t b = 0; b < in[0]->dim(1); ++b) {
    const auto length = static_cast<std::int64_t>((*in[1])[b]);
    const auto beams = best_paths(op, *in[0], b, std::clamp<std::int64_t>(length, 0, steps));
    for (std::int64_t i = 0; i < paths; ++i) {
      const bool exists = i < static_cast<std::int64_t>(beams.size());
      const Labels labels = exists ? beams[static_cast<std::size_t>(i)].first : Labels{};
      const std::int64_t at = b * paths + i;
      out[0][at] = exists ? std::log(beams[static_cast<std::size_t>(i)].second.total())
                          : -std::numeric_limits<Number>::infinity();
      out[1][at] = static_cast<Number>(labels.size());
      for (std::int64_t k = 0; k < steps; ++k) {
        const bool inside = k < static_cast<std::int64_t>(labels.size());
        out[2][at * steps + k] = static_cast<Number>(inside ? labels[static_cast<std::size_t>(k)]
                                                            : op.attributes.integer("blank"));
      }
    }
  }
}

}  // namespace

void add_ctc_rules(RuleTable& table) {
  table.add("CtcLoss", loss);
  table.add("CtcLossGrad", loss_grad);
  table.add("CtcBeamSearch", beam_search);
}

}  // namespace pando::oracle
