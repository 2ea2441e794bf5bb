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

/// Only for values without NaN.
void sort(const Op& op, const Inputs& in, std::vector<Array>& out) {
  const bool descending = op.attributes.flag_or("descending", false);
  for_each_line(in[0]->shape, op.attributes.integer("axis"), [&](const auto& line) {
    // Insertion: an element passes those that come after it, never its equals.
    std::vector<std::size_t> order;
    for (std::size_t k = 0; k < line.size(); ++k) {
      std::size_t at = order.size();
      const Number x = (*in[0])[line[k]];
      while (at > 0 &&
             (descending ? (*in[0])[line[order[at - 1]]] < x : (*in[0])[line[order[at - 1]]] > x)) {
        --at;
      }
      order.insert(order.begin() + static_cast<std::ptrdiff_t>(at), k);
    }
    for (std::size_t k = 0; k < line.size(); ++k) {
      out[0][line[k]] = (*in[0])[line[order[k]]];
      out[1][line[k]] = static_cast<Number>(order[k]);
    }
  });
}

void bucketize(const Op& op, const Inputs& in, std::vector<Array>& out) {
  const bool right = op.attributes.flag_or("right", false);
  for (std::int64_t i = 0; i < in[0]->size(); ++i) {
    const Number x = (*in[0])[i];
    for (Number boundary : in[1]->data) out[0][i] += right ? boundary <= x : boundary < x;
    if (std::isnan(x)) out[0][i] = static_cast<Number>(in[1]->size());
  }
}

std::vector<std::int64_t> scan_order(const Op& op, std::vector<std::int64_t> line) {
  if (op.attributes.flag_or("reverse", false)) std::reverse(line.begin(), line.end());
  return line;
}

void cum_prod(const Op& op, const Inputs& in, std::vector<Array>& out) {
  for_each_line(in[0]->shape, op.attributes.integer("axis"), [&](const auto& line) {
    Number product = 1.0L;
    for (std::int64_t at : scan_order(op, line)) out[0][at] = product *= (*in[0])[at];
  });
}

/// Inputs g and t: every product without the element, factor by factor.
void cum_prod_grad(const Op& op, const Inputs& in, std::vector<Array>& out) {
  for_each_line(in[0]->shape, op.attributes.integer("axis"), [&](const auto& given) {
    const std::vector<std::int64_t> line = scan_order(op, given);
    for (std::size_t k = 0; k < line.size(); ++k) {
      for (std::size_t i = k; i < line.size(); ++i) {
        Number product = (*in[0])[line[i]];
        for (std::size_t j = 0; j <= i; ++j) product *= j == k ? 1.0L : (*in[1])[line[j]];
        out[0][line[k]] += product;
      }
    }
  });
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
  table.add("Sort", sort);
  table.add("Bucketize", bucketize);
  table.add("CumProd", cum_prod);
  table.add("CumProdGrad", cum_prod_grad);
  table.add("CumSum", cum_sum);
  table.add("CumSumGrad", cum_sum_grad);
  table.add("Histogram", histogram);
}

}  // namespace pando::oracle
