// Softmax of masked scores, products with it, and its gradient.
#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "pando/base/band.hpp"
#include "tests/cpp/fuzz/generator.hpp"

namespace pando::fuzz {
namespace {

Ints swapped_last(std::size_t rank) {
  Ints permutation(rank);
  std::iota(permutation.begin(), permutation.end(), std::int64_t{0});
  std::swap(permutation[rank - 1], permutation[rank - 2]);
  return permutation;
}

}  // namespace

/// A mask that is a band of diagonals more often than not.
Tensor* GraphGenerator::masked(Tensor* scores) {
  const Shape& shape = scores->shape();
  const std::int64_t rows = shape[shape.size() - 2], columns = shape.back();
  const Band band{pick(static_cast<int>(rows)) + std::max<std::int64_t>(0, rows - columns),
                  pick(static_cast<int>(columns))};
  const bool irregular = flip(0.2);
  std::vector<std::uint8_t> kept(static_cast<std::size_t>(rows * columns));
  std::vector<float> added(kept.size());
  for (std::size_t i = 0; i < kept.size(); ++i) {
    const auto at = static_cast<std::int64_t>(i);
    const std::int64_t row = at / columns, column = at % columns;
    const IndexRange in_band = band.columns(row, columns);
    // Softmax of rows that are hidden as a whole would be NaN.
    kept[i] = in_band.contains(column) && !(irregular && column != in_band.begin && flip());
    added[i] = kept[i] != 0 ? 0.F : -1e9F;
  }
  const Shape mask{rows, columns};
  if (flip()) {
    return op("Add", {scores, builder_.constant({DType::Float32, mask, {}}, added.data())})
        .output(0);
  }
  const float hidden = -std::numeric_limits<float>::infinity();
  return op("Where", {builder_.constant({DType::Bool, mask, {}}, kept.data()), scores,
                      builder_.constant({DType::Float32, {}, {}}, &hidden)})
      .output(0);
}

/// The op of that name, and its gradient now and then.
void GraphGenerator::declared_attention_op() {
  const auto number = [&](int most) { return std::int64_t{1} + pick(most); };
  const DType dtype = random_float_dtype();
  const Shape batch = flip(0.3) ? Shape{number(2)} : Shape{};
  const std::int64_t kv_heads = number(2), heads = kv_heads * number(2);
  const std::int64_t rows = number(7), keys = number(9), depth = number(5), columns = number(5);
  const auto operand = [&](Shape rest) {
    rest.insert(rest.begin(), batch.begin(), batch.end());
    return clipped(of_slot({dtype, rest, false}, false), kEntryBound).tensor;
  };
  std::vector<Tensor*> inputs = {operand({heads, rows, depth}),
                                 operand({kv_heads, keys, depth}),
                                 operand({kv_heads, keys, columns}),
                                 nullptr,
                                 nullptr,
                                 nullptr};
  // Small products: the softmax makes much of their rounding.
  Attributes attributes = {{"scale", 0.1}};
  if (flip()) attributes.set("window", Ints{pick(5) - 1, pick(3) - 1});
  if (flip()) attributes.set("alignment", std::string("bottom_right"));
  if (flip()) {
    inputs[3] =
        constant(flip() ? DType::Bool : dtype, flip() ? Shape{rows, keys} : Shape{keys}, false);
  }
  if (flip(0.3)) {
    const std::uint32_t words[] = {static_cast<std::uint32_t>(random_()), 7};
    inputs[4] = builder_.constant({DType::UInt32, {2}, {}}, words);
    attributes.set("p", 0.3);
  }
  if (flip(0.3)) {
    const auto length = static_cast<std::int32_t>(pick(12));
    inputs[5] = builder_.constant({DType::Int32, {}, {}}, &length);
  }
  const Op& made = op("ScaledDotProductAttention", inputs, attributes);
  bounded(made.output(0), {false, 2 * kEntryBound});
  if (!flip()) return;
  std::vector<Tensor*> gradient = {operand({heads, rows, columns}),
                                   inputs[0],
                                   inputs[1],
                                   inputs[2],
                                   made.output(0),
                                   made.output(1)};
  gradient.insert(gradient.end(), inputs.begin() + 3, inputs.end());
  if (flip(0.3)) attributes.set("mask_gradient", true);
  const Op& back = op("ScaledDotProductAttentionGrad", gradient, attributes);
  const double slope = 64 * kEntryBound * kEntryBound * kEntryBound;
  for (Tensor* output : back.outputs()) bounded(output, {false, slope});
}

void GraphGenerator::attention_op() {
  if (flip(0.4)) return declared_attention_op();
  const auto arrays = where([](const Candidate& c) {
    const Shape& shape = c.tensor->shape();
    return c.tensor->dtype() == DType::Float32 && shape.size() >= 2 && c.tensor->info.bytes() > 0;
  });
  if (arrays.empty()) return void(any_float());
  const Candidate x = clipped(choose(arrays), kEntryBound);
  const std::size_t rank = x.tensor->shape().size();
  Tensor* scores = x.tensor;
  if (flip()) {
    Tensor* other = op("Transpose", {x.tensor}, {{"permutation", swapped_last(rank)}}).output(0);
    scores = op("MatMul", {x.tensor, other}).output(0);
  }
  const float scale = flip() ? 0.125F : 0.5F;
  if (flip()) {
    Tensor* factor = builder_.constant({DType::Float32, {}, {}}, &scale);
    scores = op(flip() ? "Mul" : "Div", {scores, factor}).output(0);
  }
  const Attributes axis = {{"axis", static_cast<std::int64_t>(rank) - 1}};
  const Candidate weights = add(op("Softmax", {masked(scores)}, axis).output(0), {false, 1.0});
  Shape values = weights.tensor->shape();
  const bool transposed = flip();
  Tensor* lhs = weights.tensor;
  if (transposed) {
    lhs = op("Transpose", {lhs}, {{"permutation", swapped_last(rank)}}).output(0);
  } else {
    values[rank - 2] = values[rank - 1];
  }
  values[rank - 1] = 3;
  const double sum = static_cast<double>(lhs->shape().back()) * kEntryBound;
  bounded(op("MatMul", {lhs, constant(DType::Float32, values, false)}).output(0), {false, sum});
  if (!flip()) return;
  Tensor* g = constant(DType::Float32, weights.tensor->shape(), false);
  Tensor* dx = op("SoftmaxGrad", {weights.tensor, g}, axis).output(0);
  if (flip()) {
    dx = op("Mul", {dx, builder_.constant({DType::Float32, {}, {}}, &scale)}).output(0);
  }
  bounded(dx, {false, sum + 8.0});
}

}  // namespace pando::fuzz
