// Sliding windows of convolutions and pools.
#pragma once

#include <algorithm>
#include <string>

#include "tests/oracle/rules.hpp"

namespace pando::oracle {

/// Window o of a spatial dimension covers input positions o * stride - begin + k * dilation.
struct Windows {
  Ints strides, begins, dilations;
  Shape kernel;
};

inline Ints list_or(const Op& op, const char* name, std::size_t length, std::int64_t fallback) {
  if (!op.attributes.has(name) || op.attributes.ints(name).empty()) return Ints(length, fallback);
  return op.attributes.ints(name);
}

inline Shape spatial(const Shape& shape) { return Shape(shape.begin() + 2, shape.end()); }

/// Images (N, C, spatial...), or (N, spatial..., C) of ops with channel_last.
struct Images {
  bool channel_last;
  std::int64_t samples, channels;
  Shape space;

  Images(const Op& op, const Shape& shape)
      : channel_last(op.attributes.flag_or("channel_last", false)),
        samples(shape[0]),
        channels(channel_last ? shape.back() : shape[1]),
        space(channel_last ? Shape(shape.begin() + 1, shape.end() - 1) : spatial(shape)) {}
  std::int64_t element(std::int64_t sample, std::int64_t channel, std::int64_t at) const {
    const std::int64_t size = num_elements(space);
    return channel_last ? (sample * size + at) * channels + channel
                        : (sample * channels + channel) * size + at;
  }
};

/// Total padding of which `type` (same_upper, same_lower) puts the larger half at one end.
inline std::int64_t begin_of(std::int64_t total, const std::string& type) {
  return type == "same_upper" ? total / 2 : total - total / 2;
}

inline Windows windows_of(const Op& op, const Shape& kernel, const Shape& input,
                          const Shape& output) {
  const std::size_t rank = kernel.size();
  Windows windows{list_or(op, "strides", rank, 1), list_or(op, "pads", 2 * rank, 0),
                  list_or(op, "dilations", rank, 1), kernel};
  windows.begins.resize(rank);
  const std::string type =
      op.attributes.has("pad_type") ? op.attributes.text("pad_type") : "not_set";
  for (std::size_t d = 0; d < rank; ++d) {
    if (type == "valid") windows.begins[d] = 0;
    if (type != "same_upper" && type != "same_lower") continue;
    const std::int64_t extent = windows.dilations[d] * (kernel[d] - 1) + 1;
    const std::int64_t total = (output[d] - 1) * windows.strides[d] + extent - input[d];
    windows.begins[d] = begin_of(std::max<std::int64_t>(total, 0), type);
  }
  return windows;
}

/// Calls visit(kernel position, input index) for the cells of window `o` that lie inside `input`.
template <class Visit>
void for_each_cell(const Windows& windows, const Shape& input, const Shape& o, Visit visit) {
  for_each_element(windows.kernel, [&](std::int64_t k, const Shape& cell) {
    Shape at(o.size());
    bool inside = true;
    for (std::size_t d = 0; d < o.size(); ++d) {
      at[d] = o[d] * windows.strides[d] - windows.begins[d] + cell[d] * windows.dilations[d];
      inside = inside && at[d] >= 0 && at[d] < input[d];
    }
    if (inside) visit(k, static_cast<const Shape&>(at));
  });
}

}  // namespace pando::oracle
