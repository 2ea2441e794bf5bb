// Max and average pooling.
#include <algorithm>

#include "tests/oracle/window.hpp"

namespace pando::oracle {
namespace {

using Cells = std::vector<std::int64_t>;

/// The cells of window `o` of an adaptive pool, in C order.
Cells adaptive_cells(const Shape& input, const Shape& output, const Shape& o) {
  Shape first(o.size()), size(o.size());
  for (std::size_t d = 0; d < o.size(); ++d) {
    first[d] = o[d] * input[d] / output[d];
    size[d] = ((o[d] + 1) * input[d] + output[d] - 1) / output[d] - first[d];
  }
  Cells cells;
  for_each_element(size, [&](std::int64_t, const Shape& cell) {
    Shape at = first;
    for (std::size_t d = 0; d < at.size(); ++d) at[d] += cell[d];
    cells.push_back(flat_position(input, at));
  });
  return cells;
}

Cells window_cells(const Op& op, const Shape& input, const Shape& output, const Shape& o) {
  if (op.attributes.has("output_size")) return adaptive_cells(input, output, o);
  const Windows windows = windows_of(op, op.attributes.ints("kernel_size"), input, output);
  Cells cells;
  for_each_cell(windows, input, o,
                [&](std::int64_t, const Shape& at) { cells.push_back(flat_position(input, at)); });
  return cells;
}

/// Calls visit(output position, input positions, window) for every window.
template <class Visit>
void for_each_window(const Op& op, const Shape& data, const Shape& output, Visit visit) {
  const Images from(op, data), to(op, output);
  for_each_element(to.space, [&](std::int64_t o, const Shape& window) {
    const Cells cells = window_cells(op, from.space, to.space, window);
    for (std::int64_t n = 0; n < from.samples; ++n) {
      for (std::int64_t c = 0; c < from.channels; ++c) {
        Cells elements;
        for (std::int64_t cell : cells) elements.push_back(from.element(n, c, cell));
        visit(to.element(n, c, o), elements, window);
      }
    }
  });
}

/// What an average of window `o` with `inside` cells in the data divides by.
Number divisor(const Op& op, const Shape& input, const Shape& output, const Shape& o,
               std::size_t inside) {
  const bool counts_pads = op.attributes.flag_or("count_include_pad", false);
  if (!counts_pads && !op.attributes.has("counted_pads")) return static_cast<Number>(inside);
  const Windows windows = windows_of(op, op.attributes.ints("kernel_size"), input, output);
  const std::size_t rank = input.size();
  const Ints pads =
      list_or(op, op.attributes.has("counted_pads") ? "counted_pads" : "pads", 2 * rank, 0);
  const std::string type =
      op.attributes.has("pad_type") ? op.attributes.text("pad_type") : "not_set";
  Number count = 1;
  for (std::size_t d = 0; d < rank; ++d) {
    Number along = 0;
    for (std::int64_t k = 0; k < windows.kernel[d]; ++k) {
      const std::int64_t at =
          o[d] * windows.strides[d] - windows.begins[d] + k * windows.dilations[d];
      const bool same = type == "same_upper" || type == "same_lower";
      const std::int64_t before = type == "valid" ? 0 : pads[d];
      const std::int64_t after = type == "valid" ? 0 : pads[rank + d];
      if (same || (at >= -before && at < input[d] + after)) along += 1;
    }
    count *= along;
  }
  return count;
}

Number largest(const Array& t, const std::vector<std::int64_t>& cells) {
  Number result = -std::numeric_limits<Number>::infinity();
  for (std::int64_t cell : cells) result = std::max(result, t[cell]);
  return result;
}

void max_pool(const Op& op, const Inputs& in, std::vector<Array>& out) {
  for_each_window(op, in[0]->shape, out[0].shape,
                  [&](std::int64_t o, const Cells& cells, const Shape&) {
                    out[0][o] = largest(*in[0], cells);
                  });
}

void max_pool_grad(const Op& op, const Inputs& in, std::vector<Array>& out) {
  const Array &t = *in[0], &g = *in[2];
  const bool first = op.attributes.has("ties") && op.attributes.text("ties") == "first";
  for_each_window(op, t.shape, g.shape, [&](std::int64_t o, const Cells& cells, const Shape&) {
    const Number top = largest(t, cells);
    for (std::int64_t cell : cells) {
      if (t[cell] != top) continue;
      out[0][cell] += g[o];
      if (first) break;
    }
  });
}

void average_pool(const Op& op, const Inputs& in, std::vector<Array>& out) {
  const Images from(op, in[0]->shape), to(op, out[0].shape);
  for_each_window(op, in[0]->shape, out[0].shape,
                  [&](std::int64_t o, const Cells& cells, const Shape& window) {
                    Number sum = 0.0L;
                    for (std::int64_t cell : cells) sum += (*in[0])[cell];
                    const Number count = divisor(op, from.space, to.space, window, cells.size());
                    out[0][o] = cells.empty() ? 0.0L : sum / count;
                  });
}

void average_pool_grad(const Op& op, const Inputs& in, std::vector<Array>& out) {
  const Images from(op, out[0].shape), to(op, in[0]->shape);
  for_each_window(op, out[0].shape, in[0]->shape,
                  [&](std::int64_t o, const Cells& cells, const Shape& window) {
                    const Number count = divisor(op, from.space, to.space, window, cells.size());
                    for (std::int64_t cell : cells) out[0][cell] += (*in[0])[o] / count;
                  });
}

}  // namespace

void add_pool_rules(RuleTable& table) {
  table.add("MaxPool", max_pool);
  table.add("MaxPoolGrad", max_pool_grad);
  table.add("AveragePool", average_pool);
  table.add("AveragePoolGrad", average_pool_grad);
  table.add("AdaptiveMaxPool", max_pool);
  table.add("AdaptiveMaxPoolGrad", max_pool_grad);
  table.add("AdaptiveAveragePool", average_pool);
  table.add("AdaptiveAveragePoolGrad", average_pool_grad);
}

}  // namespace pando::oracle
