#include "pando/transforms/constant_fold.hpp"

#include <algorithm>
#include <cstring>
#include <optional>

#include "pando/ir/graph_surgery.hpp"
#include "pando/transforms/purity.hpp"
#include "pando/transforms/scalar_evaluator.hpp"

namespace pando {
namespace {

/// Of an input of what is folded.
constexpr std::int64_t kMostElements = 4096;

using Results = std::vector<std::shared_ptr<HostArray>>;

/// Whether the op may be folded if it is pure.
bool has_small_constants(const Op& op) {
  if (op.num_inputs() == 0 || op.outputs().empty()) return false;
  std::int64_t largest_input = 0;
  for (const Tensor* input : op.inputs()) {
    if (input == nullptr) continue;
    const bool known = input->kind() == TensorKind::Constant && input->data != nullptr;
    if (!known || input->info.num_elements() > kMostElements) return false;
    largest_input = std::max(largest_input, input->info.num_elements());
  }
  return std::none_of(op.outputs().begin(), op.outputs().end(), [&](const Tensor* output) {
    return output->info.num_elements() > largest_input || output->is_graph_output();
  });
}

/// The next index of `shape` in C order.
void increment(Shape& index, const Shape& shape) {
  for (std::size_t d = shape.size(); d-- > 0;) {
    if (++index[d] < shape[d]) return;
    index[d] = 0;
  }
}

std::size_t element_offset(const View& view, const Shape& index) {
  std::int64_t offset = view.offset;
  for (std::size_t d = 0; d < index.size(); ++d) offset += index[d] * view.strides[d];
  return static_cast<std::size_t>(offset);
}

std::optional<Results> fold_view(const Op& op) {
  const Tensor& input = *op.input(0);
  const std::size_t size = dtype_bytes(input.dtype());
  Results results;
  for (int k = 0; k < op.num_outputs(); ++k) {
    const auto view = op.def().view(op, k, View::contiguous(input.shape()));
    if (!view) return std::nullopt;
    const Tensor& output = *op.output(k);
    auto data = HostArray::allocate(output.info.bytes());
    Shape index(view->shape.size(), 0);
    for (std::int64_t i = 0; i < output.info.num_elements(); ++i) {
      std::memcpy(data->data + static_cast<std::size_t>(i) * size,
                  input.data->data + element_offset(*view, index) * size, size);
      increment(index, view->shape);
    }
    results.push_back(std::move(data));
  }
  return results;
}

ScalarProgram scalar_program(const Op& op) {
  ScalarProgram program;
  ScalarEmitter emitter(program);
  std::vector<ScalarValue> inputs;
  inputs.reserve(static_cast<std::size_t>(op.num_inputs()));
  for (int i = 0; i < op.num_inputs(); ++i) {
    inputs.push_back(op.input(i) == nullptr ? kNoValue : emitter.load(i, op.input(i)->dtype()));
  }
  const std::vector<ScalarValue> results = op.def().scalar_body(emitter, op, inputs);
  for (int i = 0; i < op.num_outputs(); ++i) {
    emitter.store(i, results[static_cast<std::size_t>(i)], op.output(i)->dtype());
  }
  return program;
}

std::optional<Results> fold_pointwise(const Op& op) {
  const Shape& shape = op.output(0)->shape();
  const ScalarProgram program = scalar_program(op);
  std::vector<View> views;
  for (const Tensor* input : op.inputs()) {
    views.push_back(input == nullptr ? View{}
                                     : broadcast_view(View::contiguous(input->shape()), shape));
  }
  Results results;
  for (const Tensor* output : op.outputs()) {
    results.push_back(HostArray::allocate(output->info.bytes()));
  }
  std::vector<const std::byte*> inputs(views.size(), nullptr);
  std::vector<std::byte*> outputs(results.size(), nullptr);
  Shape index(shape.size(), 0);
  for (std::int64_t i = 0; i < num_elements(shape); ++i) {
    for (std::size_t k = 0; k < views.size(); ++k) {
      const Tensor* input = op.input(static_cast<int>(k));
      if (input == nullptr) continue;
      inputs[k] = input->data->data + element_offset(views[k], index) * dtype_bytes(input->dtype());
    }
    for (std::size_t k = 0; k < results.size(); ++k) {
      outputs[k] = results[k]->data + static_cast<std::size_t>(i) *
                                          dtype_bytes(op.output(static_cast<int>(k))->dtype());
    }
    if (!evaluate_scalar(program, inputs, outputs, static_cast<std::uint32_t>(i))) {
      return std::nullopt;
    }
    increment(index, shape);
  }
  return results;
}

}  // namespace

void fold_constants(Graph& graph) {
  std::optional<Purity> purity;
  for (const Op* op : graph.ops()) {
    if (!has_small_constants(*op)) continue;
    if (!purity) purity.emplace(graph);
    if (!purity->is_pure(*op)) continue;
    std::optional<Results> results;
    if (op->def().view) {
      results = fold_view(*op);
    } else if (op->def().scalar_body) {
      results = fold_pointwise(*op);
    }
    if (!results) continue;
    for (int k = 0; k < op->num_outputs(); ++k) {
      Tensor& output = *op->output(k);
      Tensor* folded = graph.add_constant(graph.unique_tensor_id(output.name()), output.info,
                                          (*results)[static_cast<std::size_t>(k)]);
      replace_uses(output, *folded);
    }
  }
}

}  // namespace pando
