// Gathers, scatters, one-hot and slices at run-time positions.
#include <algorithm>
#include <cmath>

#include "tests/oracle/rules.hpp"

namespace pando::oracle {
namespace {

std::int64_t integer(const Array& array, std::int64_t i) {
  return static_cast<std::int64_t>(array[i]);
}

std::size_t axis_of(const Op& op) {
  return static_cast<std::size_t>(op.attributes.integer("axis"));
}

/// Calls visit(table position or -1 when out of range, result position) for every element of
/// take(table, indices, axis); dimension 0 of both is shared when there are groups.
template <class Visit>
void for_each_taken(const Op& op, const Shape& table, const Array& indices, const Shape& result,
                    Visit visit) {
  const std::size_t axis = axis_of(op);
  const bool grouped = op.attributes.integer_or("group_size", 1) > 1;
  const std::size_t inner = indices.shape.size() - (grouped ? 1 : 0);
  for_each_element(result, [&](std::int64_t i, const Shape& index) {
    Shape which(index.begin() + static_cast<std::ptrdiff_t>(axis),
                index.begin() + static_cast<std::ptrdiff_t>(axis + inner));
    if (grouped) which.insert(which.begin(), index[0]);
    const std::int64_t row = integer(indices, flat_position(indices.shape, which));
    Shape at(index.begin(), index.begin() + static_cast<std::ptrdiff_t>(axis));
    at.push_back(row);
    at.insert(at.end(), index.begin() + static_cast<std::ptrdiff_t>(axis + inner), index.end());
    visit(row >= 0 && row < table[axis] ? flat_position(table, at) : -1, i);
  });
}

void gather(const Op& op, const Inputs& in, std::vector<Array>& out) {
  for_each_taken(op, in[0]->shape, *in[1], out[0].shape, [&](std::int64_t from, std::int64_t to) {
    out[0][to] = from < 0 ? 0.0L : (*in[0])[from];
  });
}

void gather_grad(const Op& op, const Inputs& in, std::vector<Array>& out) {
  for_each_taken(op, out[0].shape, *in[1], in[0]->shape, [&](std::int64_t to, std::int64_t from) {
    if (to >= 0) out[0][to] += (*in[0])[from];
  });
}

/// Calls visit(position in `shape`, position of the index) for every index that lies in range:
/// coordinate axis of the index's own position is replaced by its value.
template <class Visit>
void for_each_element_index(const Op& op, const Array& indices, const Shape& shape, Visit visit) {
  const std::size_t axis = axis_of(op);
  for_each_element(indices.shape, [&](std::int64_t i, Shape at) {
    at[axis] = integer(indices, i);
    if (at[axis] >= 0 && at[axis] < shape[axis]) visit(flat_position(shape, at), i);
  });
}

void gather_elements(const Op& op, const Inputs& in, std::vector<Array>& out) {
  for_each_element_index(op, *in[1], in[0]->shape,
                         [&](std::int64_t from, std::int64_t to) { out[0][to] = (*in[0])[from]; });
}

void scatter(const Op& op, const Inputs& in, std::vector<Array>& out) {
  out[0].data = in[0]->data;
  for_each_element_index(op, *in[1], out[0].shape,
                         [&](std::int64_t to, std::int64_t from) { out[0][to] = (*in[2])[from]; });
}

/// The index of every element of `data`: the indices have its shape, are smaller (element
/// semantics) or are a vector along the axis, with a group dimension if there are groups.
Array full_indices(const Op& op, const Array& indices, const Shape& data) {
  if (indices.shape == data || !op.attributes.flag_or("index_broadcast", true)) return indices;
  const std::size_t axis = axis_of(op);
  const bool grouped = op.attributes.integer_or("group_size", 1) > 1;
  Array full(indices.dtype, data);
  for_each_element(data, [&](std::int64_t i, const Shape& index) {
    full[i] = indices[grouped ? index[0] * data[axis] + index[axis] : index[axis]];
  });
  return full;
}

Number combine(const std::string& reduction, Number old, Number next) {
  if (reduction == "sum") return old + next;
  if (reduction == "prod") return old * next;
  if (reduction == "min") return std::min(old, next);
  if (reduction == "max") return std::max(old, next);
  return next;
}

void scatter_reduce(const Op& op, const Inputs& in, std::vector<Array>& out) {
  const Array indices = full_indices(op, *in[1], in[0]->shape);
  const std::string& reduction = op.attributes.text("reduction");
  const Array* initial = in.size() > 2 ? in[2] : nullptr;
  if (initial != nullptr) out[0].data = initial->data;
  std::vector<bool> touched(out[0].data.size(), initial != nullptr);
  const Shape index_shape = indices.shape;
  for_each_element_index(op, indices, out[0].shape, [&](std::int64_t to, std::int64_t from) {
    const Number next = (*in[0])[flat_position(in[0]->shape, index_at(index_shape, from))];
    const auto slot = static_cast<std::size_t>(to);
    out[0][to] = touched[slot] ? combine(reduction, out[0][to], next) : next;
    touched[slot] = true;
  });
}

/// The position along the axis of the first element that is NaN, or that none exceeds; the size of
/// data where it is an initial value or there is none.
void scatter_arg_reduce(const Op& op, const Inputs& in, std::vector<Array>& out) {
  const Array &data = *in[0], indices = full_indices(op, *in[1], data.shape);
  const Array* initial = in.size() > 2 ? in[2] : nullptr;
  const Number sign = op.attributes.text("reduction") == "max" ? 1.0L : -1.0L;
  const auto none = static_cast<Number>(data.shape[axis_of(op)]);
  if (initial != nullptr) out[0].data = initial->data;
  std::fill(out[1].data.begin(), out[1].data.end(), none);
  for_each_element_index(op, indices, out[0].shape, [&](std::int64_t to, std::int64_t from) {
    const Shape at = index_at(indices.shape, from);
    const Number next = data[flat_position(data.shape, at)];
    const bool is_first = initial == nullptr && out[1][to] == none;
    const bool is_better =
        std::isnan(next) ? !std::isnan(out[0][to]) : sign * next > sign * out[0][to];
    if (!is_first && !is_better) return;
    out[0][to] = next;
    out[1][to] = static_cast<Number>(at[axis_of(op)]);
  });
}

/// Inputs g, indices and positions.
void scatter_arg_reduce_grad(const Op& op, const Inputs& in, std::vector<Array>& out) {
  const Array &g = *in[0], indices = full_indices(op, *in[1], out[0].shape);
  for_each_element_index(op, indices, g.shape, [&](std::int64_t from, std::int64_t i) {
    const Shape at = index_at(indices.shape, i);
    if ((*in[2])[from] == static_cast<Number>(at[axis_of(op)])) {
      out[0][flat_position(out[0].shape, at)] = g[from];
    }
  });
  if (!op.attributes.flag("has_initial_values")) return;
  const auto none = static_cast<Number>(out[0].shape[axis_of(op)]);
  for (std::int64_t i = 0; i < g.size(); ++i) out[1][i] = (*in[2])[i] == none ? g[i] : 0.0L;
}

void scatter_data_grad(const Op& op, const Inputs& in, std::vector<Array>& out) {
  out[0].data = in[0]->data;
  for_each_element_index(op, *in[1], out[0].shape,
                         [&](std::int64_t to, std::int64_t) { out[0][to] = 0.0L; });
}

/// The gradients of a product reduction: every product without one factor, factor by factor.
void product_grad(const Op& op, const Inputs& in, std::vector<Array>& out) {
  const Array &g = *in[0], &data = *in[2], indices = full_indices(op, *in[1], out[0].shape);
  // The factors of every result: where they are in data, or -1 for the initial value.
  std::vector<std::vector<std::int64_t>> factors(g.data.size());
  if (in[3] != nullptr) factors.assign(g.data.size(), {-1});
  for_each_element_index(op, indices, g.shape, [&](std::int64_t to, std::int64_t at) {
    factors[static_cast<std::size_t>(to)].push_back(
        flat_position(data.shape, index_at(indices.shape, at)));
  });
  for (std::int64_t i = 0; i < g.size(); ++i) {
    const auto& here = factors[static_cast<std::size_t>(i)];
    for (std::size_t k = 0; k < here.size(); ++k) {
      Number product = g[i];
      for (std::size_t j = 0; j < here.size(); ++j) {
        if (j != k) product *= here[j] < 0 ? (*in[3])[i] : data[here[j]];
      }
      if (here[k] < 0) {
        out[1][i] = product;
      } else {
        out[0][here[k]] = product;
      }
    }
  }
}

/// Inputs g, indices and, for min and max, data, initial values (if any) and the result.
void scatter_reduce_grad(const Op& op, const Inputs& in, std::vector<Array>& out) {
  const Array &g = *in[0], indices = full_indices(op, *in[1], out[0].shape);
  const std::string& reduction = op.attributes.text("reduction");
  if (reduction == "prod") return product_grad(op, in, out);
  const bool compares = reduction == "min" || reduction == "max";
  for_each_element_index(op, indices, g.shape, [&](std::int64_t from, std::int64_t at) {
    const std::int64_t to = flat_position(out[0].shape, index_at(indices.shape, at));
    out[0][to] = !compares || (*in[2])[to] == (*in[4])[from] ? g[from] : 0.0L;
  });
  if (!op.attributes.flag("has_initial_values")) return;
  for (std::int64_t i = 0; i < g.size(); ++i) {
    out[1][i] = !compares || (*in[3])[i] == (*in[4])[i] ? g[i] : 0.0L;
  }
  if (reduction != "none") return;
  for_each_element_index(op, indices, g.shape,
                         [&](std::int64_t to, std::int64_t) { out[1][to] = 0.0L; });
}

void one_hot(const Op& op, const Inputs& in, std::vector<Array>& out) {
  const std::int64_t given = op.attributes.integer("axis");
  const std::size_t axis = given < 0 ? in[0]->shape.size() : static_cast<std::size_t>(given);
  for_each_element(out[0].shape, [&](std::int64_t i, Shape index) {
    const std::int64_t number = index[axis];
    index.erase(index.begin() + static_cast<std::ptrdiff_t>(axis));
    const bool on = integer(*in[0], flat_position(in[0]->shape, index)) == number;
    out[0][i] = (*in[1])[on ? 1 : 0];
  });
}

/// Inputs g and indices; outputs: the sums of g where it is off and where it is on.
void one_hot_grad(const Op& op, const Inputs& in, std::vector<Array>& out) {
  const std::int64_t given = op.attributes.integer("axis");
  const std::size_t axis = given < 0 ? in[1]->shape.size() : static_cast<std::size_t>(given);
  for_each_element(in[0]->shape, [&](std::int64_t i, Shape index) {
    const std::int64_t number = index[axis];
    index.erase(index.begin() + static_cast<std::ptrdiff_t>(axis));
    const bool on = integer(*in[1], flat_position(in[1]->shape, index)) == number;
    out[0][on ? 1 : 0] += (*in[0])[i];
  });
}

/// Calls visit(position in `shape`, position in the slice) for a slice at run-time starts; a start
/// beyond the last possible one is moved back to it.
template <class Visit>
void for_each_sliced(const Op& op, const Array& starts, const Shape& shape, const Shape& slice,
                     Visit visit) {
  const Ints& axes = op.attributes.ints("axes");
  Shape offset(shape.size(), 0);
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const auto axis = static_cast<std::size_t>(axes[i]);
    offset[axis] = std::clamp<std::int64_t>(integer(starts, static_cast<std::int64_t>(i)), 0,
                                            shape[axis] - slice[axis]);
  }
  for_each_element(slice, [&](std::int64_t i, Shape index) {
    for (std::size_t d = 0; d < index.size(); ++d) index[d] += offset[d];
    visit(flat_position(shape, index), i);
  });
}

void dynamic_slice(const Op& op, const Inputs& in, std::vector<Array>& out) {
  for_each_sliced(op, *in[1], in[0]->shape, out[0].shape,
                  [&](std::int64_t from, std::int64_t to) { out[0][to] = (*in[0])[from]; });
}

void dynamic_update(const Op& op, const Inputs& in, std::vector<Array>& out) {
  out[0].data = in[0]->data;
  for_each_sliced(op, *in[1], out[0].shape, in[2]->shape,
                  [&](std::int64_t to, std::int64_t from) { out[0][to] = (*in[2])[from]; });
}

void dynamic_pad_grad(const Op& op, const Inputs& in, std::vector<Array>& out) {
  for_each_sliced(op, *in[1], out[0].shape, in[0]->shape,
                  [&](std::int64_t to, std::int64_t from) { out[0][to] = (*in[0])[from]; });
}

/// g with the slice set to 0.
void dynamic_update_to_update_grad(const Op& op, const Inputs& in, std::vector<Array>& out) {
  out[0].data = in[0]->data;
  const Ints &axes = op.attributes.ints("axes"), &sizes = op.attributes.ints("sizes");
  Shape slice = out[0].shape;
  for (std::size_t i = 0; i < axes.size(); ++i) slice[static_cast<std::size_t>(axes[i])] = sizes[i];
  for_each_sliced(op, *in[1], out[0].shape, slice,
                  [&](std::int64_t to, std::int64_t) { out[0][to] = 0.0L; });
}

void sparse_accumulate(const Op& op, const Inputs& in, std::vector<Array>& out) {
  out[0].data = in[0]->data;
  const Number factor = scalar_or(op, in, 2, "factor", 1.0);
  for_each_taken(op, out[0].shape, *in[3], in[1]->shape, [&](std::int64_t to, std::int64_t from) {
    if (to >= 0) out[0][to] += factor * (*in[1])[from];
  });
}

}  // namespace

void add_index_rules(RuleTable& table) {
  table.add("Gather", gather);
  table.add("TiedGather", gather);
  table.add("GatherGrad", gather_grad);
  table.add("GatherElements", gather_elements);
  table.add("Scatter", scatter);
  table.add("ScatterReduce", scatter_reduce);
  table.add("ScatterDataGrad", scatter_data_grad);
  table.add("ScatterUpdateGrad", gather_elements);
  table.add("ScatterReduceGradOp", scatter_reduce_grad);
  table.add("ScatterArgReduce", scatter_arg_reduce);
  table.add("ScatterArgReduceGrad", scatter_arg_reduce_grad);
  table.add("OneHot", one_hot);
  table.add("OneHotGrad", one_hot_grad);
  table.add("DynamicSlice", dynamic_slice);
  table.add("DynamicUpdate", dynamic_update);
  table.add("DynamicSlicePadGrad", dynamic_pad_grad);
  table.add("DynamicUpdateToUpdateGrad", dynamic_update_to_update_grad);
  table.add("DynamicUpdateUpdaterGrad", dynamic_slice);
  table.add("SparseAccumulate", sparse_accumulate);
}

}  // namespace pando::oracle
