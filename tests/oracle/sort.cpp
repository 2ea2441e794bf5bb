// Ordering and scans.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "tests/oracle/rules.hpp"

namespace pando::oracle {
namespace {

/// Calls visit(line positions) for every line of `shape` along `axis`, in C order of the rest.
template <class Visit>
void for_each_line(const Shape& shape, std::int64_t axis, Visit visit) {
  const auto d = static_cast<std::size_t>(axis);
  Shape rest = shape;
  rest[d] = 1;
  for_each_element(rest, [&](std::int64_t, Shape index) {
    std::vector<std::int64_t> line;
    for (index[d] = 0; index[d] < shape[d]; ++index[d]) {
      line.push_back(flat_position(shape, index));
    }
    visit(line);
  });
}

Rule arg_extreme(bool largest) {
  return [largest](const Op& op, const Inputs& in, std::vector<Array>& out) {
    std::int64_t next = 0;
    for_each_line(in[0]->shape, op.attributes.integer("axis"), [&](const auto& line) {
      std::size_t best = 0;
      for (std::size_t k = 1; k < line.size(); ++k) {
        const Number a = (*in[0])[line[k]], b = (*in[0])[line[best]];
        if (largest ? a > b : a < b) best = k;
      }
      out[0][next++] = static_cast<Number>(best);
    });
  };
}

/// Sorted whether or not the op asks for it: unsorted order is unspecified.
void top_k(const Op& op, const Inputs& in, std::vector<Array>& out) {
  const std::int64_t axis = op.attributes.integer("axis");
  const bool largest = op.attributes.flag("largest");
  std::vector<std::vector<std::int64_t>> targets;
  for_each_line(out[0].shape, axis, [&](const auto& line) { targets.push_back(line); });
  std::size_t row = 0;
  for_each_line(in[0]->shape, axis, [&](const auto& line) {
    std::vector<std::size_t> order(line.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      const Number x = (*in[0])[line[a]], y = (*in[0])[line[b]];
      return largest ? x > y : x < y;
    });
    const std::vector<std::int64_t>& target = targets[row++];
    for (std::size_t k = 0; k < target.size(); ++k) {
      out[0][target[k]] = (*in[0])[line[order[k]]];
      out[1][target[k]] = static_cast<Number>(order[k]);
    }
  });
}

std::int64_t scan_axis(const Op& op, const Inputs& in) {
  const std::int64_t axis = in.size() > 1 && in[1] != nullptr
                                ? static_cast<std::int64_t>((*in[1])[0])
                                : op.attributes.integer("axis");
  return axis < 0 ? axis + static_cast<std::int64_t>(in[0]->shape.size()) : axis;
}

void running_sum(const Op& op, const Inputs& in, std::vector<Array>& out, bool reverse) {
  for_each_line(in[0]->shape, scan_axis(op, in), [&](std::vector<std::int64_t> line) {
    if (reverse) std::reverse(line.begin(), line.end());
    Number sum = 0.0L;
    for (std::int64_t at : line) out[0][at] = sum += (*in[0])[at];
  });
}

void cum_sum(const Op& op, const Inputs& in, std::vector<Array>& out) {
  running_sum(op, in, out, op.attributes.flag_or("reverse", false));
}

void cum_sum_grad(const Op& op, const Inputs& in, std::vector<Array>& out) {
  running_sum(op, in, out, !op.attributes.flag("reverse"));
}

/// Inputs g and indices, whose lines along the axis belong to those of the result.
void top_k_grad(const Op& op, const Inputs& in, std::vector<Array>& out) {
  const std::int64_t axis = op.attributes.integer("axis");
  std::vector<std::vector<std::int64_t>> targets;
  for_each_line(out[0].shape, axis, [&](const auto& line) { targets.push_back(line); });
  std::size_t row = 0;
  for_each_line(in[0]->shape, axis, [&](const auto& line) {
    const std::vector<std::int64_t>& target = targets[row++];
    for (std::int64_t at : line) {
      out[0][target[static_cast<std::size_t>((*in[1])[at])]] = (*in[0])[at];
    }
  });
}

void histogram(const Op& op, const Inputs& in, std::vector<Array>& out) {
  const Floats& levels = op.attributes.floats("levels");
  for (Number x : in[0]->data) {
    if (op.attributes.flag("absolute_of_input")) x = std::fabs(x);
    std::int64_t bin = 0;
    for (double level : levels) bin += x >= rounded(level, DType::Float32);
    out[0][bin] += 1.0L;
  }
}

}  // namespace

void add_sort_rules(RuleTable& table) {
  table.add("ArgMax", arg_extreme(true));
  table.add("ArgMin", arg_extreme(false));
  table.add("TopK", top_k);
  table.add("TopKGrad", top_k_grad);
  table.add("CumSum", cum_sum);
  table.add("CumSumGrad", cum_sum_grad);
  table.add("Histogram", histogram);
}

}  // namespace pando::oracle
