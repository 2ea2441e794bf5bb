// Padding, and windows as columns.
#include "tests/oracle/window.hpp"

namespace pando::oracle {
namespace {

/// Where element `at` of a padded dimension comes from; -1: from nowhere.
std::int64_t source(const std::string& mode, std::int64_t at, std::int64_t size) {
  if (at >= 0 && at < size) return at;
  if (mode == "edge") return at < 0 ? 0 : size - 1;
  if (mode == "reflect") return at < 0 ? -at : 2 * (size - 1) - at;
  return -1;
}

/// Calls visit(position in `shape` or -1, position in `padded`).
template <class Visit>
void for_each_padded(const Op& op, const Shape& shape, const Shape& padded, Visit visit) {
  for_each_element(padded, [&](std::int64_t i, Shape at) {
    bool inside = true;
    for (std::size_t d = 0; d < at.size(); ++d) {
      at[d] = source(op.attributes.text("mode"), at[d] - op.attributes.ints("pads")[d], shape[d]);
      inside = inside && at[d] >= 0;
    }
    visit(inside ? flat_position(shape, at) : -1, i);
  });
}

void pad(const Op& op, const Inputs& in, std::vector<Array>& out) {
  const Number value = op.attributes.number_or("value", 0.0);
  for_each_padded(op, in[0]->shape, out[0].shape, [&](std::int64_t from, std::int64_t to) {
    out[0][to] = from < 0 ? value : (*in[0])[from];
  });
}

void pad_grad(const Op& op, const Inputs& in, std::vector<Array>& out) {
  for_each_padded(op, out[0].shape, in[0]->shape, [&](std::int64_t to, std::int64_t from) {
    if (to >= 0) out[0][to] += (*in[0])[from];
  });
}

/// Calls visit(position in data (N, C, spatial...), position in columns) for every cell inside.
template <class Visit>
void for_each_window_cell(const Op& op, const Shape& data, const Shape& columns, Visit visit) {
  const Shape space = spatial(data), kernel = op.attributes.ints("kernel_size");
  Shape count(space.size());
  const Ints strides = list_or(op, "strides", space.size(), 1);
  const Ints pads = list_or(op, "pads", 2 * space.size(), 0);
  const Ints dilations = list_or(op, "dilations", space.size(), 1);
  for (std::size_t d = 0; d < space.size(); ++d) {
    const std::int64_t last = pads[d] + space[d] + pads[space.size() + d] - 1;
    count[d] = (last - dilations[d] * (kernel[d] - 1)) / strides[d] + 1;
  }
  const Windows windows = windows_of(op, kernel, space, count);
  const std::int64_t cells = num_elements(kernel);
  for (std::int64_t plane = 0; plane < data[0] * data[1]; ++plane) {
    for_each_element(count, [&](std::int64_t window, const Shape& o) {
      for_each_cell(windows, space, o, [&](std::int64_t cell, const Shape& at) {
        visit(plane * num_elements(space) + flat_position(space, at),
              (plane * cells + cell) * columns[2] + window);
      });
    });
  }
}

void unfold(const Op& op, const Inputs& in, std::vector<Array>& out) {
  for_each_window_cell(op, in[0]->shape, out[0].shape,
                       [&](std::int64_t from, std::int64_t to) { out[0][to] = (*in[0])[from]; });
}

void fold(const Op& op, const Inputs& in, std::vector<Array>& out) {
  for_each_window_cell(op, out[0].shape, in[0]->shape,
                       [&](std::int64_t to, std::int64_t from) { out[0][to] += (*in[0])[from]; });
}

}  // namespace

void add_pad_rules(RuleTable& table) {
  table.add("Pad", pad);
  table.add("PadGrad", pad_grad);
  table.add("Unfold", unfold);
  table.add("Fold", fold);
}

}  // namespace pando::oracle
