#include "pando/transforms/callee_gradients.hpp"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "pando/base/error.hpp"
#include "pando/transforms/graph_calls.hpp"

namespace pando {

int index_in(const std::vector<Tensor*>& tensors, const Tensor* tensor) {
  const auto it = std::find(tensors.begin(), tensors.end(), tensor);
  return it == tensors.end() ? -1 : static_cast<int>(it - tensors.begin());
}

Tensor* zeros(OpBuilder& builder, const TensorInfo& info) {
  return builder.make(
      "Init", {},
      {{"shape", info.shape}, {"dtype", info.dtype}, {"init_type", std::string("zero")}});
}

std::vector<std::vector<int>> outputs_of_gradients(const GradGraphInfo& info) {
  std::unordered_map<const Tensor*, std::size_t> last;
  for (std::size_t i = 0; i < info.expected_inputs.size(); ++i) {
    const ExpectedConnection& connection = info.expected_inputs[i];
    if (connection.type == ConnectionType::FwdGrad) last[connection.forward_tensor] = i;
  }
  std::unordered_map<const Tensor*, std::vector<int>> places;
  const std::vector<Tensor*>& outputs = info.forward_graph->outputs();
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (last.contains(outputs[i])) places[outputs[i]].push_back(static_cast<int>(i));
  }
  std::vector<std::vector<int>> result(info.expected_inputs.size());
  std::unordered_map<const Tensor*, std::size_t> given;
  for (std::size_t i = 0; i < result.size(); ++i) {
    const ExpectedConnection& connection = info.expected_inputs[i];
    if (connection.type != ConnectionType::FwdGrad) continue;
    const Tensor* tensor = connection.forward_tensor;
    internal_check(places.contains(tensor),
                   "a called gradient graph wants the gradient of a non-output");
    const std::vector<int>& all = places.at(tensor);
    std::size_t& next = given[tensor];
    const std::size_t end = last.at(tensor) == i ? all.size() : std::min(next + 1, all.size());
    for (; next < end; ++next) result[i].push_back(all[next]);
  }
  return result;
}

Graph& branch_gradients(const Op& op, const GradGraphInfo& info, int first_input,
                        const std::vector<Tensor*>& targets, Ir& ir) {
  Graph& graph = ir.create_graph(info.forward_graph->id() + "_bwd_branch");
  OpBuilder builder(graph, op.context);
  std::map<Tensor*, std::vector<Tensor*>> found;
  if (info.gradient_graph != nullptr) {
    std::vector<Tensor*> inputs;
    for (const Tensor* input : info.gradient_graph->inputs()) {
      inputs.push_back(graph.add_input(graph.unique_tensor_id(input->name()), input->info));
    }
    const Op& call = graph.create_op(Registry::instance().get("Call"), inputs,
                                     {{"modified", Ints{}}}, op.context, {info.gradient_graph},
                                     names_of(info.gradient_graph->outputs()));
    for (std::size_t i = 0; i < info.expected_outputs.size(); ++i) {
      const int input =
          index_in(info.forward_graph->inputs(), info.expected_outputs[i].forward_tensor);
      if (input < 0) continue;
      found[op.input(first_input + input)].push_back(call.output(static_cast<int>(i)));
    }
  }
  for (Tensor* target : targets) {
    const std::vector<Tensor*>& parts = found[target];
    if (parts.empty()) {
      graph.mark_output(zeros(builder, target->info));
    } else {
      graph.mark_output(builder.make("Sum", parts));
    }
  }
  return graph;
}

}  // namespace pando
