// Random sorts, scans, padding, windows as columns and recurrent layers.
#include <algorithm>

#include "tests/cpp/fuzz/generator.hpp"

namespace pando::fuzz {
namespace {

bool is_array(const Candidate& c) {
  return !c.tensor->shape().empty() && c.tensor->dtype() != DType::Bool;
}

}  // namespace

void GraphGenerator::order_op() {
  const auto arrays = where(is_array);
  if (arrays.empty()) return void(any_float());
  const Candidate x = choose(arrays);
  const ValueClass values = class_of(x);
  const std::int64_t axis = pick(static_cast<int>(x.tensor->shape().size()));
  const auto size = static_cast<double>(x.tensor->shape()[static_cast<std::size_t>(axis)]);
  if (values.exact && flip()) {
    const Op& sorted = op("Sort", {x.tensor}, {{"axis", axis}, {"descending", flip()}});
    add(sorted.output(0), values);
    add(sorted.output(1), {true, size});
  } else if (values.exact && flip()) {
    const float limits[] = {-1.0f, 0.0f, 2.0f};
    Tensor* boundaries =
        builder_.cast(builder_.constant({DType::Float32, {3}, {}}, limits), x.tensor->dtype());
    add(op("Bucketize", {x.tensor, boundaries}, {{"right", flip()}}).output(0), {true, 3.0});
  } else if (is_float(x)) {
    const Candidate small = clipped(x, 1.0);
    bounded(op("CumProd", {small.tensor}, {{"axis", axis}, {"reverse", flip()}}).output(0),
            {values.exact, 1.0});
  }
}

void GraphGenerator::pad_op() {
  const auto arrays = where(is_array);
  if (arrays.empty()) return void(any_float());
  const Candidate x = choose(arrays);
  static const std::vector<std::string> kModes = {"constant", "reflect", "edge"};
  const std::string& mode = choose(kModes);
  Ints begins, ends;
  for (const std::int64_t size : x.tensor->shape()) {
    const int most = mode == "reflect" ? static_cast<int>(std::min<std::int64_t>(size - 1, 2)) : 2;
    begins.push_back(pick(most + 1));
    ends.push_back(mode == "constant" && flip(0.2) ? -pick(static_cast<int>(size))
                                                   : pick(most + 1));
  }
  begins.insert(begins.end(), ends.begin(), ends.end());
  ValueClass values = class_of(x);
  values.bound = std::max(values.bound, 2.0);
  bounded(op("Pad", {x.tensor}, {{"pads", begins}, {"mode", mode}, {"value", 2.0}}).output(0),
          values);
}

void GraphGenerator::fold_op() {
  const Candidate x = window_data();
  const Shape& shape = x.tensor->shape();
  Ints kernel, strides, pads(2 * (shape.size() - 2), 0);
  for (std::size_t d = 2; d < shape.size(); ++d) {
    kernel.push_back(1 + pick(static_cast<int>(std::min<std::int64_t>(shape[d], 3))));
    strides.push_back(1 + pick(2));
    pads[d - 2] = pick(2);
  }
  const Attributes window = {{"kernel_size", kernel}, {"strides", strides}, {"pads", pads}};
  ValueClass values = class_of(x);
  Tensor* columns = op("Unfold", {x.tensor}, window).output(0);
  const Candidate unfolded = bounded(columns, values);
  if (flip()) return;
  Attributes back = window;
  back.set("output_size", Ints(shape.begin() + 2, shape.end()));
  values.bound *= static_cast<double>(num_elements(kernel));
  bounded(op("Fold", {unfolded.tensor}, back).output(0), values);
}

void GraphGenerator::recurrent_op() {
  static const std::vector<std::pair<std::string, std::int64_t>> kCells = {
      {"lstm", 4}, {"gru", 3}, {"tanh", 1}};
  const auto& [cell, gates] = choose(kCells);
  const DType dtype = random_float_dtype();
  const std::int64_t steps = 1 + pick(3), batch = 1 + pick(3), hidden = 1 + pick(5);
  const Slot slot{dtype, {steps, batch, gates * hidden}, false};
  const Candidate parts = clipped(of_slot(slot, false), kEntryBound);
  std::vector<Tensor*> inputs = {parts.tensor, constant(dtype, {gates * hidden, hidden}, false)};
  inputs.push_back(cell == "gru" && flip() ? constant(dtype, {gates * hidden}, false) : nullptr);
  inputs.push_back(flip() ? constant(dtype, {batch, hidden}, false) : nullptr);
  inputs.push_back(cell == "lstm" && flip() ? constant(dtype, {batch, hidden}, false) : nullptr);
  const Op& layer = op("RecurrentSequence", inputs, {{"cell", cell}, {"reverse", flip()}});
  bounded(layer.output(0), {false, kEntryBound});
  if (cell == "lstm") bounded(layer.output(2), {false, kEntryBound + 3.0});
}

/// A system whose diagonal is larger than what stands beside it.
void GraphGenerator::linear_algebra_op() {
  const DType dtype = random_float_dtype();
  const std::int64_t size = 1 + pick(5);
  std::vector<float> identity(static_cast<std::size_t>(size * size), 0.0f);
  for (std::int64_t i = 0; i < size; ++i) identity[static_cast<std::size_t>(i * (size + 1))] = 8.0f;
  Tensor* diagonal =
      builder_.cast(builder_.constant({DType::Float32, {size, size}, {}}, identity.data()), dtype);
  const Candidate beside = clipped(of_slot({dtype, {size, size}, false}, false), 0.5);
  const Candidate matrix = add(op("Add", {diagonal, beside.tensor}).output(0), {false, 8.5});
  if (flip()) {
    bounded(op("Cholesky", {matrix.tensor}).output(0), {false, 3.0});
    return;
  }
  const Candidate b = clipped(of_slot({dtype, {size, 1 + pick(4)}, false}, false), kEntryBound);
  bounded(
      op("TriangularSolve", {matrix.tensor, b.tensor}, {{"upper", flip()}, {"transpose", flip()}})
          .output(0),
      {false, kEntryBound});
}

/// Groups of rows, some of them empty or beyond the rows, and rows that belong to none.
void GraphGenerator::grouped_matmul_op() {
  const DType dtype = random_float_dtype();
  const std::int64_t rows = 1 + pick(6), left = 1 + pick(4), right = 1 + pick(4);
  std::vector<std::int32_t> numbers(static_cast<std::size_t>(1 + pick(4)));
  for (auto& end : numbers) end = pick(static_cast<int>(rows) + 2);
  if (flip(0.8)) std::sort(numbers.begin(), numbers.end());
  const auto groups = static_cast<std::int64_t>(numbers.size());
  Tensor* ends = builder_.constant({DType::Int32, {groups}, {}}, numbers.data());
  const Candidate x = clipped(of_slot({dtype, {rows, left}, false}, false), kEntryBound);
  if (flip(0.3)) {
    const Candidate y = clipped(of_slot({dtype, {rows, right}, false}, false), kEntryBound);
    bounded(op("GroupedOuter", {x.tensor, y.tensor, ends}).output(0),
            {false, static_cast<double>(rows) * kEntryBound * kEntryBound});
    return;
  }
  const bool is_transposed = flip();
  const Shape shape = is_transposed ? Shape{groups, right, left} : Shape{groups, left, right};
  const Candidate w = clipped(of_slot({dtype, shape, false}, false), kEntryBound);
  Tensor* matrices = w.tensor;
  if (is_transposed) {
    matrices = op("Transpose", {matrices}, {{"permutation", Ints{0, 2, 1}}}).output(0);
  }
  bounded(op("GroupedMatMul", {x.tensor, matrices, ends}).output(0),
          {false, static_cast<double>(left) * kEntryBound * kEntryBound});
}

}  // namespace pando::fuzz
