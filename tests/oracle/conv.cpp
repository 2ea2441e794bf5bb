// Convolutions.
#include <cmath>

#include "tests/oracle/window.hpp"

namespace pando::oracle {
namespace {

/// Calls visit(data position, weight position, output position) for every product of a convolution
/// with weight (M, C / groups, ...).
template <class Visit>
void for_each_product(const Op& op, const Windows& windows, const Images& data, const Shape& weight,
                      const Images& output, Visit visit) {
  const std::int64_t kernel_size = num_elements(windows.kernel);
  const std::int64_t group_outputs = weight[0] / op.attributes.integer_or("groups", 1);
  for_each_element(output.space, [&](std::int64_t o, const Shape& window) {
    for_each_cell(windows, data.space, window, [&](std::int64_t k, const Shape& at) {
      const std::int64_t x = flat_position(data.space, at);
      for (std::int64_t n = 0; n < data.samples; ++n) {
        for (std::int64_t m = 0; m < weight[0]; ++m) {
          for (std::int64_t c = 0; c < weight[1]; ++c) {
            const std::int64_t channel = (m / group_outputs) * weight[1] + c;
            visit(data.element(n, channel, x), (m * weight[1] + c) * kernel_size + k,
                  output.element(n, m, o));
          }
        }
      }
    });
  });
}

void apply_log2_scale(const Inputs& in, Array& out) {
  if (in.size() < 3 || in[2] == nullptr) return;
  for (Number& x : out.data) x = std::ldexp(x, static_cast<int>((*in[2])[0]));
}

/// As above, with the windows of the op's attributes.
template <class Visit>
void for_each_product(const Op& op, const Shape& data, const Shape& weight, const Shape& output,
                      Visit visit) {
  const Images from(op, data), to(op, output);
  const Windows windows = windows_of(op, spatial(weight), from.space, to.space);
  for_each_product(op, windows, from, weight, to, visit);
}

void conv(const Op& op, const Inputs& in, std::vector<Array>& out) {
  const Array &data = *in[0], &weight = *in[1];
  for_each_product(
      op, data.shape, weight.shape, out[0].shape,
      [&](std::int64_t x, std::int64_t w, std::int64_t y) { out[0][y] += data[x] * weight[w]; });
  apply_log2_scale(in, out[0]);
}

void conv_data_grad(const Op& op, const Inputs& in, std::vector<Array>& out) {
  const Array &weight = *in[0], &g = *in[1];
  for_each_product(
      op, out[0].shape, weight.shape, g.shape,
      [&](std::int64_t x, std::int64_t w, std::int64_t y) { out[0][x] += g[y] * weight[w]; });
}

void conv_weights_grad(const Op& op, const Inputs& in, std::vector<Array>& out) {
  const Array &data = *in[0], &g = *in[1];
  for_each_product(
      op, data.shape, out[0].shape, g.shape,
      [&](std::int64_t x, std::int64_t w, std::int64_t y) { out[0][w] += g[y] * data[x]; });
}

/// Scatters every input element through the kernel: the roles of data and output are exchanged.
void conv_transpose(const Op& op, const Inputs& in, std::vector<Array>& out) {
  const Array &t = *in[0], &weight = *in[1];
  const Images from(op, out[0].shape), to(op, t.shape);
  const Shape kernel = spatial(weight.shape), &input = to.space, &output = from.space;
  const std::size_t rank = kernel.size();
  Windows windows{list_or(op, "strides", rank, 1), list_or(op, "pads", 2 * rank, 0), Ints(rank, 1),
                  kernel};
  if (op.attributes.has("output_shape") && !op.attributes.ints("output_shape").empty()) {
    const Ints extra = list_or(op, "output_padding", rank, 0);
    const std::string type =
        op.attributes.has("pad_type") ? op.attributes.text("pad_type") : "not_set";
    for (std::size_t d = 0; d < rank; ++d) {
      const std::int64_t full = windows.strides[d] * (input[d] - 1) + extra[d] + kernel[d];
      windows.begins[d] = begin_of(full - output[d], type);
    }
  }
  for_each_product(
      op, windows, from, weight.shape, to,
      [&](std::int64_t x, std::int64_t w, std::int64_t y) { out[0][x] += t[y] * weight[w]; });
  apply_log2_scale(in, out[0]);
}

}  // namespace

void add_conv_rules(RuleTable& table) {
  table.add("Conv", conv);
  table.add("ConvDataGrad", conv_data_grad);
  table.add("ConvWeightsGrad", conv_weights_grad);
  table.add("ConvTranspose", conv_transpose);
}

}  // namespace pando::oracle
