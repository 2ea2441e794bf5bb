#include "pando/ir/graph_surgery.hpp"

#include <algorithm>

#include "pando/base/error.hpp"

namespace pando {

void replace_uses(Tensor& from, Tensor& to) {
  if (&from == &to) return;
  while (!from.uses().empty()) {
    const Use use = from.uses().front();
    use.op->set_input(use.index, &to);
  }
  if (!from.is_graph_output()) return;
  Graph& graph = from.graph();
  std::vector<Tensor*> outputs = graph.outputs();
  std::replace(outputs.begin(), outputs.end(), &from, &to);
  graph.set_outputs(std::move(outputs));
}

void remove_input(Graph& graph, int index) {
  Tensor& tensor = *graph.inputs()[static_cast<std::size_t>(index)];
  internal_check(tensor.uses().empty(), "a graph input that is used cannot be removed");
  graph.erase_tensor(tensor);
}

void remove_output(Graph& graph, int index) {
  std::vector<Tensor*> outputs = graph.outputs();
  outputs.erase(outputs.begin() + index);
  graph.set_outputs(std::move(outputs));
}

}  // namespace pando
