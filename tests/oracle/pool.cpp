// Max and average pooling.
#include <algorithm>

#include "tests/oracle/window.hpp"

namespace pando::oracle {
namespace {

/// Calls visit(output position, input positions) for every window.
template <class Visit>
void for_each_window(const Op& op, const Shape& data, const Shape& output, Visit visit) {
  const Shape input_space = spatial(data), output_space = spatial(output);
  const Windows windows =
      windows_of(op, op.attributes.ints("kernel_size"), input_space, output_space);
  const std::int64_t planes = data[0] * data[1];
  for (std::int64_t plane = 0; plane < planes; ++plane) {
    for_each_element(output_space, [&](std::int64_t o, const Shape& window) {
      std::vector<std::int64_t> cells;
      for_each_cell(windows, input_space, window, [&](std::int64_t, const Shape& at) {
        cells.push_back(plane * num_elements(input_space) + flat_position(input_space, at));
      });
      visit(plane * num_elements(output_space) + o, cells);
    });
  }
}

Number largest(const Array& t, const std::vector<std::int64_t>& cells) {
  Number result = -std::numeric_limits<Number>::infinity();
  for (std::int64_t cell : cells) result = std::max(result, t[cell]);
  return result;
}

using Cells = std::vector<std::int64_t>;

void max_pool(const Op& op, const Inputs& in, std::vector<Array>& out) {
  for_each_window(op, in[0]->shape, out[0].shape,
                  [&](std::int64_t o, const Cells& cells) { out[0][o] = largest(*in[0], cells); });
}

void max_pool_grad(const Op& op, const Inputs& in, std::vector<Array>& out) {
  const Array &t = *in[0], &g = *in[2];
  for_each_window(op, t.shape, g.shape, [&](std::int64_t o, const Cells& cells) {
    const Number top = largest(t, cells);
    for (std::int64_t cell : cells) {
      if (t[cell] == top) out[0][cell] += g[o];
    }
  });
}

void average_pool(const Op& op, const Inputs& in, std::vector<Array>& out) {
  for_each_window(op, in[0]->shape, out[0].shape, [&](std::int64_t o, const Cells& cells) {
    Number sum = 0.0L;
    for (std::int64_t cell : cells) sum += (*in[0])[cell];
    out[0][o] = cells.empty() ? 0.0L : sum / static_cast<Number>(cells.size());
  });
}

void average_pool_grad(const Op& op, const Inputs& in, std::vector<Array>& out) {
  for_each_window(op, out[0].shape, in[0]->shape, [&](std::int64_t o, const Cells& cells) {
    for (std::int64_t cell : cells) {
      out[0][cell] += (*in[0])[o] / static_cast<Number>(cells.size());
    }
  });
}

}  // namespace

void add_pool_rules(RuleTable& table) {
  table.add("MaxPool", max_pool);
  table.add("MaxPoolGrad", max_pool_grad);
  table.add("AveragePool", average_pool);
  table.add("AveragePoolGrad", average_pool_grad);
}

}  // namespace pando::oracle
