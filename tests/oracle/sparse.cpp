// Updates of some rows of tables.
#include <algorithm>
#include <cmath>
#include <optional>

#include "tests/oracle/rules.hpp"

namespace pando::oracle {
namespace {

/// The position in a table of an element of `x`, in which the dimensions of `indices` come in place
/// of the axis, with its row; nullopt where the index is out of range.
struct Place {
  std::int64_t position = 0, row = 0;
};
std::optional<Place> place_in(const Shape& table, std::size_t axis, const Array& indices,
                              const Shape& index) {
  const auto first = index.begin() + static_cast<std::ptrdiff_t>(axis);
  const auto last = first + static_cast<std::ptrdiff_t>(indices.shape.size());
  const auto row =
      static_cast<std::int64_t>(indices[flat_position(indices.shape, Shape(first, last))]);
  if (row < 0 || row >= table[axis]) return std::nullopt;
  Shape at(index.begin(), first);
  at.push_back(row);
  at.insert(at.end(), last, index.end());
  return Place{flat_position(table, at), row};
}

/// The sums of rows of equal index in an array of the shape of the table.
struct RowSums {
  Array sums;
  std::vector<bool> listed;

  RowSums(const Op& op, Shape table, const Array& x, const Array& indices)
      : sums(x.dtype, std::move(table)) {
    const auto axis = static_cast<std::size_t>(op.attributes.integer("axis"));
    listed.assign(static_cast<std::size_t>(sums.shape[axis]), false);
    for_each_element(x.shape, [&](std::int64_t i, const Shape& index) {
      const auto place = place_in(sums.shape, axis, indices, index);
      if (!place) return;
      sums[place->position] += x[i];
      listed[static_cast<std::size_t>(place->row)] = true;
    });
  }

  void drop_zero_rows(std::size_t axis) {
    std::vector<bool> is_nonzero(listed.size(), false);
    for_each_element(sums.shape, [&](std::int64_t i, const Shape& index) {
      if (sums[i] != 0.0L) is_nonzero[static_cast<std::size_t>(index[axis])] = true;
    });
    for (std::size_t row = 0; row < listed.size(); ++row) {
      listed[row] = listed[row] && is_nonzero[row];
    }
  }
};

void coalesce_rows(const Op& op, const Inputs& in, std::vector<Array>& out) {
  const auto axis = static_cast<std::size_t>(op.attributes.integer("axis"));
  Shape table = out[0].shape;
  table[axis] = op.attributes.integer("size");
  RowSums rows(op, table, *in[0], *in[1]);
  const std::vector<bool> summed = rows.listed;
  if (op.attributes.flag_or("skip_zero_rows", false)) rows.drop_zero_rows(axis);
  std::fill(out[1].data.begin(), out[1].data.end(), -1.0L);
  std::int64_t next = 0;
  for (std::size_t row = 0; row < summed.size(); ++row) {
    if (!summed[row]) continue;
    for_each_element(out[0].shape, [&](std::int64_t i, Shape index) {
      if (index[axis] != next) return;
      index[axis] = static_cast<std::int64_t>(row);
      out[0][i] = rows.sums[flat_position(table, index)];
    });
    out[1][next++] = rows.listed[row] ? static_cast<Number>(row) : -1.0L;
  }
}

void update_rows(const Op& op, const Inputs& in, std::vector<Array>& out) {
  const auto axis = static_cast<std::size_t>(op.attributes.integer("axis"));
  out[0].data = in[0]->data;
  for_each_element(in[1]->shape, [&](std::int64_t i, const Shape& index) {
    const auto place = place_in(out[0].shape, axis, *in[2], index);
    if (place) out[0][place->position] = (*in[1])[i];
  });
}

/// Inputs t, m, v, X, indices, step, learning_rate, weight_decay, beta1, beta2, epsilon. Behind the
/// output come m, v and the step.
void sparse_adam(const Op& op, const Inputs& in, std::vector<Array>& out) {
  const auto given = [&](std::size_t i) { return i < in.size() && in[i] != nullptr; };
  const auto axis = static_cast<std::size_t>(op.attributes.integer("axis"));
  const Array& t = *in[0];
  Array everywhere(DType::Int32, {t.shape[axis]});
  for (std::int64_t i = 0; i < everywhere.size(); ++i) everywhere[i] = static_cast<Number>(i);
  RowSums rows(op, t.shape, *in[3], given(4) ? *in[4] : everywhere);
  if (!given(4) || op.attributes.flag_or("skip_zero_rows", false)) rows.drop_zero_rows(axis);
  Array &m = out[1], &v = out[2];
  const Number beta1 = scalar_or(op, in, 8, "beta1", 0.0);
  const Number beta2 = scalar_or(op, in, 9, "beta2", 0.0);
  Number first = 1.0L, second = 1.0L;
  if (given(5)) {
    Number& step = out[3][0];
    step += 1.0L;
    first = in.step(1.0L - std::pow(beta1, step), m.dtype);
    second = in.step(1.0L - std::pow(beta2, step), v.dtype);
  }
  const auto averaged = [&](Number old, Number beta, Number x, DType dtype, bool squares) {
    const auto step = [&](Number value) { return in.step(value, dtype); };
    x = step(x);
    Number added = step(step(in.step(1.0L - beta, DType::Float32)) * x);
    if (squares) added = step(added * x);
    return step(step(step(beta) * old) + added);
  };
  const Number decay = scalar_or(op, in, 7, "weight_decay", 0.0);
  const Number epsilon = scalar_or(op, in, 10, "epsilon", 1e-7);
  const Number rate = scalar_or(op, in, 6, "learning_rate", 0.0);
  for_each_element(t.shape, [&](std::int64_t i, const Shape& index) {
    out[0][i] = t[i];
    if (!rows.listed[static_cast<std::size_t>(index[axis])]) return;
    const Number g = in.step(rows.sums[i], sum_dtype(in[3]->dtype));
    m[i] = averaged(m[i], beta1, g, m.dtype, false);
    v[i] = averaged(v[i], beta2, g, v.dtype, true);
    const Number corrected = in.step(in.step(m[i] / first, m.dtype), v.dtype);
    Number x = corrected / (std::sqrt(in.step(v[i] / second, v.dtype)) + epsilon);
    if (decay != 0.0L) x += decay * t[i];
    out[0][i] = t[i] - rate * in.step(x, decay != 0.0L ? t.dtype : m.dtype);
  });
}

}  // namespace

void add_sparse_rules(RuleTable& table) {
  table.add("CoalesceRows", coalesce_rows);
  table.add("UpdateRows", update_rows);
  table.add("SparseAdam", sparse_adam);
}

}  // namespace pando::oracle
