// Reductions.
#include <algorithm>
#include <cmath>

#include "tests/oracle/rules.hpp"

namespace pando::oracle {
namespace {

/// The elements that are reduced to one, in C order.
using Values = std::vector<Number>;
using Reduction = Number (*)(const Values&, DType);

std::vector<Values> groups(const Op& op, const Array& t, std::int64_t count) {
  std::vector<bool> is_reduced(t.shape.size(), false);
  for (std::int64_t axis : op.attributes.ints("axes")) {
    is_reduced[static_cast<std::size_t>(axis)] = true;
  }
  Shape kept_shape;
  for (std::size_t d = 0; d < t.shape.size(); ++d) {
    if (!is_reduced[d]) kept_shape.push_back(t.shape[d]);
  }
  std::vector<Values> result(static_cast<std::size_t>(count));
  for_each_element(t.shape, [&](std::int64_t i, const Shape& index) {
    Shape kept;
    for (std::size_t d = 0; d < index.size(); ++d) {
      if (!is_reduced[d]) kept.push_back(index[d]);
    }
    result[static_cast<std::size_t>(flat_position(kept_shape, kept))].push_back(t[i]);
  });
  return result;
}

Number sum(const Values& group, DType) {
  Number total = 0.0L;
  for (Number x : group) total += x;
  return total;
}

Number mean(const Values& group, DType dtype) {
  return sum(group, dtype) / static_cast<Number>(group.size());
}

/// Integers overflow at every step: together they may have more digits than a Number.
Number step(Number x, DType dtype) { return is_integer(dtype) ? rounded(x, dtype) : x; }

Number product(const Values& group, DType dtype) {
  Number total = 1.0L;
  for (Number x : group) total = step(total * x, dtype);
  return total;
}

Number largest(const Values& group, DType) { return *std::max_element(group.begin(), group.end()); }
Number smallest(const Values& group, DType) {
  return *std::min_element(group.begin(), group.end());
}

Number l1(const Values& group, DType) {
  Number total = 0.0L;
  for (Number x : group) total += std::fabs(x);
  return total;
}

Number sum_square(const Values& group, DType dtype) {
  Number total = 0.0L;
  for (Number x : group) total += step(x * x, dtype);
  return total;
}

Number l2(const Values& group, DType dtype) { return std::sqrt(sum_square(group, dtype)); }
Number log_sum(const Values& group, DType dtype) { return std::log(sum(group, dtype)); }

Number log_sum_exp(const Values& group, DType dtype) {
  Number top = largest(group, dtype);
  if (std::isinf(top)) top = 0.0L;
  Number total = 0.0L;
  for (Number x : group) total += std::exp(x - top);
  return top + std::log(total);
}

void median(const Op& op, const Inputs& in, std::vector<Array>& out) {
  const std::vector<Values> all = groups(op, *in[0], out[0].size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    Values sorted = all[i];
    std::sort(sorted.begin(), sorted.end());
    const Number value = sorted[(sorted.size() - 1) / 2];
    out[0].data[i] = value;
    const auto at = std::find(all[i].begin(), all[i].end(), value);
    out[1].data[i] = static_cast<Number>(at - all[i].begin());
  }
}

}  // namespace

void add_reduction_rules(RuleTable& table) {
  const std::pair<const char*, Reduction> reductions[] = {
      {"ReduceSum", sum},        {"ReduceMean", mean},
      {"ReduceProd", product},   {"ReduceMax", largest},
      {"ReduceMin", smallest},   {"ReduceL1", l1},
      {"ReduceL2", l2},          {"ReduceSumSquare", sum_square},
      {"ReduceLogSum", log_sum}, {"ReduceLogSumExp", log_sum_exp}};
  for (const auto& [name, reduction] : reductions) {
    table.add(name, [reduction](const Op& op, const Inputs& in, std::vector<Array>& out) {
      const std::vector<Values> all = groups(op, *in[0], out[0].size());
      for (std::size_t i = 0; i < all.size(); ++i) {
        out[0].data[i] = reduction(all[i], out[0].dtype);
      }
    });
  }
  table.add("ReduceMedian", median);
  table.add("LambSquare", [](const Op&, const Inputs& in, std::vector<Array>& out) {
    out[0][0] = sum_square(in[0]->data, DType::Float32);
  });
}

}  // namespace pando::oracle
