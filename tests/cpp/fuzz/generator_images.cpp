// Chains of what convolutional networks have, in which layouts are chosen together.
#include <cstdint>

#include "tests/cpp/fuzz/generator.hpp"

namespace pando::fuzz {
namespace {

constexpr int kMostChannels = 20;
const Ints kOnes = {1, 1};

Attributes same_size_windows(std::int64_t kernel) {
  return {{"strides", kOnes}, {"pads", Ints(4, kernel / 2)}, {"dilations", kOnes}};
}

}  // namespace

/// A convolution to the same size; often with its gradients.
Candidate GraphGenerator::chained_conv(const Candidate& x) {
  const Shape& shape = x.tensor->shape();
  const std::int64_t groups = shape[1] % 2 == 0 && flip(0.2) ? 2 : 1;
  const std::int64_t outputs = groups * (1 + pick(kMostChannels / static_cast<int>(groups)));
  const std::int64_t size = flip() ? 1 : 3;
  const Shape kernel = {outputs, shape[1] / groups, size, size};
  const Candidate w =
      clipped(of_slot({x.tensor->dtype(), kernel, class_of(x).exact}, false), kEntryBound);
  const bool exact = class_of(x).exact && class_of(w).exact;
  const double product = kEntryBound * class_of(x).bound;
  Attributes attributes = same_size_windows(size);
  attributes.set("groups", groups);
  const auto taps = static_cast<double>(kernel[1] * size * size);
  const Candidate y =
      bounded(op("Conv", {x.tensor, w.tensor}, attributes).output(0), {exact, taps * product});
  if (flip(0.7)) return y;
  const Candidate g = clipped(y, kEntryBound);
  attributes.set("input_shape", Ints(shape));
  const auto channel_taps = static_cast<double>(outputs / groups * size * size);
  bounded(op("ConvDataGrad", {w.tensor, g.tensor}, attributes).output(0),
          {exact, channel_taps * kEntryBound * kEntryBound});
  attributes.erase("input_shape");
  attributes.set("weight_shape", Ints(kernel));
  const auto positions = static_cast<double>(shape[0] * shape[2] * shape[3]);
  bounded(op("ConvWeightsGrad", {x.tensor, g.tensor}, attributes).output(0),
          {exact, positions * product});
  return y;
}

/// Adds what was made before, or something per channel or per sample and channel.
Candidate GraphGenerator::chained_addition(const Candidate& x, const std::vector<Candidate>& made) {
  const Shape& shape = x.tensor->shape();
  std::vector<Candidate> alike;
  for (const Candidate& other : made) {
    if (other.tensor->shape() == shape) alike.push_back(other);
  }
  const Candidate other =
      flip()
          ? choose(alike)
          : of_slot({x.tensor->dtype(), {flip() ? 1 : shape[0], shape[1], 1, 1}, class_of(x).exact},
                    false);
  return bounded(
      op("Add", {x.tensor, other.tensor}).output(0),
      {class_of(x).exact && class_of(other).exact, class_of(x).bound + class_of(other).bound});
}

Candidate GraphGenerator::chained_pool(const Candidate& x) {
  const ValueClass values = class_of(x);
  Attributes attributes = {{"kernel_size", Ints{2, 2}},
                           {"strides", kOnes},
                           {"pads", Ints{1, 0, 0, 1}},
                           {"dilations", kOnes}};
  const bool is_max = flip();
  return add(op(is_max ? "MaxPool" : "AveragePool", {x.tensor}, attributes).output(0),
             {values.exact && is_max, values.bound});
}

void GraphGenerator::image_chain_op() {
  const Shape shape = {1 + pick(2), 1 + pick(kMostChannels), 1 + pick(6), 1 + pick(6)};
  Candidate x = clipped(of_slot({random_float_dtype(), shape, flip()}, false), kEntryBound);
  std::vector<Candidate> made;
  for (int i = 0, count = 3 + pick(5); i < count; ++i) {
    made.push_back(x);
    switch (pick(6)) {
      case 0:
        x = add(op("Relu", {x.tensor}).output(0), class_of(x));
        break;
      case 1:
        x = chained_addition(x, made);
        break;
      case 2:
        x = chained_pool(x);
        break;
      default:
        x = chained_conv(clipped(x, kEntryBound));
    }
  }
}

}  // namespace pando::fuzz
