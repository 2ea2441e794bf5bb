#include "pando/transforms/recompute.hpp"

#include <algorithm>
#include <unordered_map>

#include "pando/base/error.hpp"
#include "pando/transforms/graph_calls.hpp"

namespace pando {
namespace {

bool contains(const std::vector<Tensor*>& tensors, const Tensor* tensor) {
  return std::find(tensors.begin(), tensors.end(), tensor) != tensors.end();
}

std::vector<Tensor*> by_name(std::vector<Tensor*> tensors) {
  std::sort(tensors.begin(), tensors.end(), [](const Tensor* a, const Tensor* b) {
    return std::pair(a->name(), a->id()) < std::pair(b->name(), b->id());
  });
  return tensors;
}

Tensor* input_like(Graph& target, const Tensor& tensor, bool by_ref = false) {
  return target.add_input(target.unique_tensor_id(tensor.name()), tensor.info, by_ref);
}

void refuse_written_inputs(const Graph& forward) {
  for (const Tensor* input : forward.inputs()) {
    if (!input->is_by_ref()) continue;
    throw ValueError(str_cat("recompute: the forward graph ", forward.id(), " takes '",
                             input->name(),
                             "' by reference and a second run would write it again; wanted a "
                             "graph that takes all inputs by value"));
  }
}

}  // namespace

RecomputeInputs add_recompute_inputs(Graph& target, const GradGraphInfo& info) {
  RecomputeInputs result;
  const std::vector<Tensor*>& inputs = info.gradient_graph->inputs();
  const std::vector<Tensor*>& forward_inputs = info.forward_graph->inputs();
  std::vector<Tensor*> done;
  for (std::size_t i = 0; i < info.expected_inputs.size(); ++i) {
    const ExpectedConnection& connection = info.expected_inputs[i];
    Tensor* tensor = connection.forward_tensor;
    const bool is_gradient = connection.type == ConnectionType::FwdGrad;
    if (!is_gradient && !contains(forward_inputs, tensor)) continue;
    Tensor* added = input_like(target, is_gradient ? *inputs[i] : *tensor);
    result.gradient.emplace_back(inputs[i], added);
    result.expected.push_back(connection);
    if (is_gradient) continue;
    result.forward.emplace_back(tensor, added);
    done.push_back(tensor);
  }
  for (Tensor* tensor : by_name(forward_inputs)) {
    if (contains(done, tensor)) continue;
    result.forward.emplace_back(tensor, input_like(target, *tensor));
    result.expected.push_back({tensor, ConnectionType::Fwd});
  }
  const std::vector<Tensor*> others(
      inputs.begin() + static_cast<std::ptrdiff_t>(info.expected_inputs.size()), inputs.end());
  for (Tensor* tensor : by_name(others)) {
    const bool by_ref = tensor->is_by_ref();
    result.gradient.emplace_back(tensor, input_like(target, *tensor, by_ref));
  }
  return result;
}

Recomputation recompute(const GradGraphInfo& info, const std::string& name,
                        const OpContext& context) {
  const Graph& forward = *info.forward_graph;
  refuse_written_inputs(forward);
  Graph& graph = forward.ir().create_graph(name);
  Recomputation result;
  result.inputs = add_recompute_inputs(graph, info);
  std::unordered_map<const Tensor*, Tensor*> known(result.inputs.forward.begin(),
                                                   result.inputs.forward.end());
  std::vector<Tensor*> forward_arguments;
  for (const Tensor* input : forward.inputs()) forward_arguments.push_back(known.at(input));
  const std::vector<Tensor*> values = call(graph, *info.forward_graph, forward_arguments, context);
  for (std::size_t i = 0; i < values.size(); ++i) known.emplace(forward.outputs()[i], values[i]);

  const std::unordered_map<const Tensor*, Tensor*> given(result.inputs.gradient.begin(),
                                                         result.inputs.gradient.end());
  std::vector<Tensor*> arguments;
  for (std::size_t i = 0; i < info.gradient_graph->inputs().size(); ++i) {
    const auto it = given.find(info.gradient_graph->inputs()[i]);
    arguments.push_back(it != given.end() ? it->second
                                          : known.at(info.expected_inputs[i].forward_tensor));
  }
  for (Tensor* output : call(graph, *info.gradient_graph, arguments, context)) {
    graph.mark_output(output);
  }
  put_in_sequence(graph);
  result.info = {info.forward_graph, &graph, result.inputs.expected, info.expected_outputs};
  return result;
}

}  // namespace pando
