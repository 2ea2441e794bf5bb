// Random convolutions and pools, with their gradients.
#include <algorithm>
#include <cstdint>

#include "tests/cpp/fuzz/generator.hpp"

namespace pando::fuzz {
namespace {

constexpr std::int64_t kMaxDataElements = 300;

std::int64_t product(const Ints& values) {
  std::int64_t result = 1;
  for (std::int64_t value : values) result *= value;
  return result;
}

std::int64_t random_divisor(Random& random, std::int64_t count, std::int64_t most) {
  Ints divisors;
  for (std::int64_t d = 1; d <= std::min(count, most); ++d) {
    if (count % d == 0) divisors.push_back(d);
  }
  return divisors[random() % divisors.size()];
}

/// `count` elements as (N, C, spatial...).
Shape random_data_shape(Random& random, std::int64_t count) {
  Shape shape;
  const std::size_t spatial = 1 + random() % 3;
  for (std::size_t d = 0; d + 1 < 2 + spatial; ++d) {
    shape.push_back(random_divisor(random, count, 6));
    count /= shape.back();
  }
  shape.push_back(count);
  return shape;
}

/// The windows of one spatial dimension.
struct Axis {
  std::int64_t size, kernel, stride, dilation, begin, end;
  std::int64_t extent() const { return dilation * (kernel - 1) + 1; }
  bool fits() const { return size + begin + end >= extent(); }
  std::int64_t windows(bool ceil_mode) const {
    const std::int64_t room = size + begin + end - extent();
    return (ceil_mode ? (room + stride - 1) / stride : room / stride) + 1;
  }
  /// Whether every window has a cell inside the data.
  bool covers(bool ceil_mode) const {
    for (std::int64_t o = 0; o < windows(ceil_mode); ++o) {
      bool inside = false;
      for (std::int64_t k = 0; k < kernel; ++k) {
        const std::int64_t at = o * stride - begin + k * dilation;
        inside = inside || (at >= 0 && at < size);
      }
      if (!inside) return false;
    }
    return true;
  }
};

/// `shape` (N, C, spatial...) with the channels last.
Shape channels_last(Shape shape) {
  std::rotate(shape.begin() + 1, shape.begin() + 2, shape.end());
  return shape;
}

/// The windows of data (N, C, spatial...).
std::vector<Axis> random_axes(Random& random, const Shape& data, bool plain) {
  const auto number = [&](std::int64_t first, std::int64_t last) {
    return std::uniform_int_distribution<std::int64_t>(first, last)(random);
  };
  std::vector<Axis> axes;
  for (std::size_t d = 2; d < data.size(); ++d) {
    Axis axis{data[d], number(1, 3), number(1, 3), 1, 0, 0};
    if (!plain) {
      axis.dilation = number(1, 2);
      axis.begin = number(0, 2);
      axis.end = number(0, 2);
    }
    if (!axis.fits()) axis.kernel = 1;
    axes.push_back(axis);
  }
  return axes;
}

Ints list_of(const std::vector<Axis>& axes, std::int64_t Axis::*field) {
  Ints values;
  for (const Axis& axis : axes) values.push_back(axis.*field);
  return values;
}

Ints pads_of(const std::vector<Axis>& axes) {
  Ints pads = list_of(axes, &Axis::begin);
  for (const Axis& axis : axes) pads.push_back(axis.end);
  return pads;
}

Attributes explicit_windows(const std::vector<Axis>& axes) {
  return {{"strides", list_of(axes, &Axis::stride)},
          {"pads", pads_of(axes)},
          {"dilations", list_of(axes, &Axis::dilation)}};
}

/// Strides and, instead of pads, their type.
Attributes typed_windows(Random& random, const std::vector<Axis>& axes) {
  static constexpr const char* kTypes[] = {"same_upper", "same_lower", "valid"};
  return {{"strides", list_of(axes, &Axis::stride)},
          {"pad_type", std::string(kTypes[random() % 3])}};
}

}  // namespace

/// Data of shape (N, C, spatial...).
Candidate GraphGenerator::window_data() {
  const auto floats = where([](const Candidate& c) {
    return is_floating_point(c.tensor->dtype()) &&
           c.tensor->info.num_elements() <= kMaxDataElements;
  });
  if (floats.empty() || flip(0.4)) {
    const Shape shape = random_data_shape(random_, 1 + pick(kMaxDataElements));
    return clipped(of_slot({random_float_dtype(), shape, flip()}, false), kEntryBound);
  }
  const Candidate x = clipped(choose(floats), kEntryBound);
  const std::size_t rank = x.tensor->shape().size();
  if (rank >= 3 && rank <= 5 && flip()) return x;
  const Shape shape = random_data_shape(random_, x.tensor->info.num_elements());
  return add(op("Reshape", {x.tensor}, {{"shape", Ints(shape)}}).output(0), class_of(x));
}

/// `x` as (N, spatial..., C), its bytes as they are.
Tensor* GraphGenerator::with_channels_last(const Candidate& x) {
  return op("Reshape", {x.tensor}, {{"shape", Ints(channels_last(x.tensor->shape()))}}).output(0);
}

void GraphGenerator::conv_op() {
  const Candidate x = window_data();
  const Shape data = x.tensor->shape();
  const bool last = flip(0.3);
  Tensor* images = last ? with_channels_last(x) : x.tensor;
  const bool is_typed = flip(0.2);
  const std::vector<Axis> axes = random_axes(random_, data, is_typed);
  const std::int64_t groups = random_divisor(random_, data[1], 4);
  const std::int64_t outputs = groups * (1 + pick(3));
  const bool transposed = !is_typed && flip(0.2);
  Shape kernel = transposed ? Shape{data[1], 1 + pick(2)} : Shape{outputs, data[1] / groups};
  const Ints sizes = list_of(axes, &Axis::kernel);
  kernel.insert(kernel.end(), sizes.begin(), sizes.end());
  const Candidate w = clipped(
      of_slot({x.tensor->dtype(), kernel, class_of(x).exact && flip(0.8)}, false), kEntryBound);
  const bool exact = class_of(x).exact && class_of(w).exact;
  const double square = kEntryBound * kEntryBound;
  const auto taps = static_cast<double>(product(sizes) * data[1]);
  Attributes attributes = is_typed ? typed_windows(random_, axes) : explicit_windows(axes);
  attributes.set("groups", groups);
  if (last) attributes.set("channel_last", true);
  if (transposed) {
    // Without padding and dilation: the output is never empty.
    attributes.erase("pads");
    attributes.erase("dilations");
    bounded(op("ConvTranspose", {images, w.tensor}, attributes).output(0), {exact, taps * square});
    return;
  }
  const Candidate y =
      bounded(op("Conv", {images, w.tensor}, attributes).output(0), {exact, taps * square});
  if (is_typed || flip()) return;
  const Candidate g = clipped(y, kEntryBound);
  attributes.set("input_shape", Ints(images->shape()));
  bounded(op("ConvDataGrad", {w.tensor, g.tensor}, attributes).output(0),
          {exact && class_of(g).exact, static_cast<double>(product(sizes) * outputs) * square});
  attributes.erase("input_shape");
  attributes.set("weight_shape", Ints(kernel));
  const std::int64_t per_channel = g.tensor->info.num_elements() / outputs;
  const auto positions = static_cast<double>(per_channel);
  bounded(op("ConvWeightsGrad", {images, g.tensor}, attributes).output(0),
          {exact && class_of(g).exact, positions * square});
}

void GraphGenerator::adaptive_pool_op() {
  const Candidate x = window_data();
  const ValueClass values = class_of(x);
  Attributes attributes;
  Ints sizes;
  for (std::size_t d = 2; d < x.tensor->shape().size(); ++d) {
    sizes.push_back(1 + pick(static_cast<int>(x.tensor->shape()[d]) + 1));
  }
  attributes.set("output_size", sizes);
  const bool last = flip(0.3), is_max = flip();
  Tensor* images = last ? with_channels_last(x) : x.tensor;
  if (last) attributes.set("channel_last", true);
  if (is_max && flip()) attributes.set("ties", std::string("first"));
  const char* kind = is_max ? "AdaptiveMaxPool" : "AdaptiveAveragePool";
  Tensor* pooled = op(kind, {images}, attributes).output(0);
  add(pooled, {values.exact && is_max, values.bound});
  if ((is_max && !values.exact) || flip()) return;
  const Candidate g =
      clipped(of_slot({pooled->dtype(), pooled->shape(), flip()}, false), kEntryBound);
  // An element may be in all windows.
  const double bound = kEntryBound * static_cast<double>(pooled->info.num_elements());
  if (is_max) {
    bounded(op("AdaptiveMaxPoolGrad", {images, pooled, g.tensor}, attributes).output(0),
            {class_of(g).exact, bound});
    return;
  }
  attributes.set("input_shape", Ints(images->shape()));
  bounded(op("AdaptiveAveragePoolGrad", {g.tensor}, attributes).output(0), {false, bound});
}

void GraphGenerator::pool_op() {
  if (flip(0.2)) return adaptive_pool_op();
  const Candidate x = window_data();
  const ValueClass values = class_of(x);
  const bool is_typed = flip(0.2);
  std::vector<Axis> axes = random_axes(random_, x.tensor->shape(), is_typed);
  const bool ceil_mode = !is_typed && flip(0.3);
  for (Axis& axis : axes) {
    if (!axis.covers(ceil_mode)) axis = {axis.size, 1, 1, 1, 0, 0};
  }
  Attributes attributes = is_typed ? typed_windows(random_, axes) : explicit_windows(axes);
  const Ints kernel = list_of(axes, &Axis::kernel);
  attributes.set("kernel_size", kernel);
  if (ceil_mode) attributes.set("ceil_mode", true);
  const bool is_max = flip(), last = flip(0.3);
  Tensor* images = last ? with_channels_last(x) : x.tensor;
  if (last) attributes.set("channel_last", true);
  if (is_max && flip()) attributes.set("ties", std::string("first"));
  const bool counts_pads = !is_max && flip();
  if (counts_pads) attributes.set("count_include_pad", true);
  Tensor* pooled = op(is_max ? "MaxPool" : "AveragePool", {images}, attributes).output(0);
  add(pooled, {values.exact && is_max, values.bound});
  // The gradient of a maximum of rounded values depends on which of two close ones is larger.
  if (is_typed || ceil_mode || (is_max && !values.exact) || flip()) return;
  const Slot slot{pooled->dtype(), pooled->shape(), flip()};
  const Candidate g = clipped(of_slot(slot, false), kEntryBound);
  const double bound = kEntryBound * static_cast<double>(product(kernel));
  if (is_max) {
    bounded(op("MaxPoolGrad", {images, pooled, g.tensor}, attributes).output(0),
            {class_of(g).exact, bound});
    return;
  }
  attributes.set("input_shape", Ints(images->shape()));
  if (counts_pads) {
    attributes.erase("count_include_pad");
    attributes.set("counted_pads", pads_of(axes));
  }
  bounded(op("AveragePoolGrad", {g.tensor}, attributes).output(0), {false, bound});
}

}  // namespace pando::fuzz
