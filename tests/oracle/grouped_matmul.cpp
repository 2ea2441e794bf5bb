// Products of groups of rows, element by element.
#include <algorithm>

#include "tests/oracle/rules.hpp"

namespace pando::oracle {
namespace {

/// The group of each row; -1 behind the last end.
std::vector<std::int64_t> groups_of(const Array& ends, std::int64_t rows) {
  std::vector<std::int64_t> groups(static_cast<std::size_t>(rows), -1);
  std::int64_t row = 0;
  for (std::int64_t group = 0; group < ends.size(); ++group) {
    for (; row < rows && static_cast<Number>(row) < ends[group]; ++row) {
      groups[static_cast<std::size_t>(row)] = group;
    }
  }
  return groups;
}

void grouped_matmul(const Op&, const Inputs& in, std::vector<Array>& out) {
  const Array &x = *in[0], &w = *in[1];
  const std::int64_t rows = x.shape[0], depth = x.shape[1], columns = out[0].shape[1];
  const std::vector<std::int64_t> groups = groups_of(*in[2], rows);
  for (std::int64_t i = 0; i < rows * columns; ++i) {
    const std::int64_t row = i / columns, column = i % columns;
    const std::int64_t group = groups[static_cast<std::size_t>(row)];
    Number sum = 0.0L;
    for (std::int64_t k = 0; k < depth && group >= 0; ++k) {
      sum += x[row * depth + k] * w[(group * depth + k) * columns + column];
    }
    out[0][i] = sum;
  }
}

void grouped_outer(const Op&, const Inputs& in, std::vector<Array>& out) {
  const Array &x = *in[0], &y = *in[1];
  const std::int64_t rows = x.shape[0], left = x.shape[1], right = y.shape[1];
  const std::vector<std::int64_t> groups = groups_of(*in[2], rows);
  for (std::int64_t i = 0; i < out[0].size(); ++i) out[0][i] = 0.0L;
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t group = groups[static_cast<std::size_t>(row)];
    for (std::int64_t i = 0; i < left * right && group >= 0; ++i) {
      out[0][group * left * right + i] += x[row * left + i / right] * y[row * right + i % right];
    }
  }
}

}  // namespace

void add_grouped_matmul_rules(RuleTable& table) {
  table.add("GroupedMatMul", grouped_matmul);
  table.add("GroupedOuter", grouped_outer);
}

}  // namespace pando::oracle
