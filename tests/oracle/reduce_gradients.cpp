// Gradients of reductions: inputs g, then (where needed) the reduced tensor x and the result.
#include <algorithm>
#include <cmath>

#include "tests/oracle/rules.hpp"

namespace pando::oracle {
namespace {

/// The positions of attribute shape that are reduced to each element of g, in C order.
std::vector<std::vector<std::int64_t>> reduced_positions(const Op& op, const Array& g) {
  const Shape& shape = op.attributes.ints("shape");
  Shape kept = shape;
  for (std::int64_t axis : op.attributes.ints("axes")) kept[static_cast<std::size_t>(axis)] = 1;
  std::vector<std::vector<std::int64_t>> positions(g.data.size());
  for_each_element(shape, [&](std::int64_t i, const Shape& index) {
    positions[static_cast<std::size_t>(broadcast_position(kept, index))].push_back(i);
  });
  return positions;
}

/// One group: g and the result of the reduction, and the reduced elements.
struct Group {
  Number g, result;
  std::vector<Number> x;
};

using Gradient = Number (*)(const Group& group, std::size_t k);

Rule per_group(Gradient gradient) {
  return [gradient](const Op& op, const Inputs& in, std::vector<Array>& out) {
    const auto positions = reduced_positions(op, *in[0]);
    for (std::size_t i = 0; i < positions.size(); ++i) {
      const auto at = static_cast<std::int64_t>(i);
      Group group{(*in[0])[at], in.size() > 2 ? (*in[2])[at] : 0.0L, {}};
      for (std::int64_t position : positions[i]) {
        group.x.push_back(in.size() > 1 ? (*in[1])[position] : 0.0L);
      }
      for (std::size_t k = 0; k < positions[i].size(); ++k) {
        out[0][positions[i][k]] = gradient(group, k);
      }
    }
  };
}

Number extreme(const Group& group, std::size_t k) {
  return group.x[k] == group.result ? group.g : 0.0L;
}

Number product_of_others(const Group& group, std::size_t k) {
  Number product = group.g;
  for (std::size_t other = 0; other < group.x.size(); ++other) {
    if (other != k) product *= group.x[other];
  }
  return product;
}

Number sign_times(const Group& group, std::size_t k) {
  return group.g * static_cast<Number>((group.x[k] > 0.0L) - (group.x[k] < 0.0L));
}

Number share_of_sum(const Group& group, std::size_t) {
  Number sum = 0.0L;
  for (Number x : group.x) sum += x;
  return group.g / sum;
}

Number softmax_times(const Group& group, std::size_t k) {
  const Number top = *std::max_element(group.x.begin(), group.x.end());
  Number sum = 0.0L;
  for (Number x : group.x) sum += std::exp(x - top);
  return group.g * std::exp(group.x[k] - top) / sum;
}

/// Input 1 is the position of the selected element among those that are reduced with it.
void median_gradient(const Op& op, const Inputs& in, std::vector<Array>& out) {
  const auto positions = reduced_positions(op, *in[0]);
  for (std::size_t i = 0; i < positions.size(); ++i) {
    const auto at = static_cast<std::int64_t>(i);
    out[0][positions[i][static_cast<std::size_t>((*in[1])[at])]] = (*in[0])[at];
  }
}

}  // namespace

void add_reduction_gradient_rules(RuleTable& table) {
  const std::pair<const char*, Gradient> gradients[] = {
      {"ReduceSumGrad", [](const Group& group, std::size_t) { return group.g; }},
      {"ReduceMeanGrad", [](const Group& group,
                            std::size_t) { return group.g / static_cast<Number>(group.x.size()); }},
      {"ReduceMaxGrad", extreme},
      {"ReduceMinGrad", extreme},
      {"ReduceProdGrad", product_of_others},
      {"ReduceL1Grad", sign_times},
      {"ReduceL2Grad",
       [](const Group& group, std::size_t k) { return group.g * (group.x[k] / group.result); }},
      {"ReduceSumSquareGrad",
       [](const Group& group, std::size_t k) { return 2.0L * group.g * group.x[k]; }},
      {"ReduceLogSumGrad", share_of_sum},
      {"ReduceLogSumExpGrad", softmax_times},
  };
  for (const auto& [name, gradient] : gradients) table.add(name, per_group(gradient));
  table.add("ReduceMedianGrad", median_gradient);
}

}  // namespace pando::oracle
