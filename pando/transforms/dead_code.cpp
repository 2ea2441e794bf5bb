#include "pando/transforms/dead_code.hpp"

#include <algorithm>
#include <optional>
#include <ranges>
#include <set>
#include <unordered_map>

#include "pando/ir/call_order.hpp"
#include "pando/transforms/dependencies.hpp"

namespace pando {
namespace {

/// Whether ops and the graphs that they call do more than compute.
class Effects {
 public:
  bool has(const Op& op) {
    if (op.called_graphs.empty()) return op.def().has_side_effects;
    const auto is_known = [&](const Graph& graph) { return graphs_.contains(&graph); };
    for (const Graph* graph : callees_first(op.called_graphs, is_known)) {
      graphs_[graph] = std::any_of(graph->ops().begin(), graph->ops().end(),
                                   [&](const Op* inner) { return is_known_to_have(*inner); });
    }
    return is_known_to_have(op);
  }

 private:
  /// The callees of `op` are known.
  bool is_known_to_have(const Op& op) const {
    return op.def().has_side_effects ||
           std::any_of(op.called_graphs.begin(), op.called_graphs.end(),
                       [&](const Graph* callee) { return graphs_.at(callee); });
  }

  std::unordered_map<const Graph*, bool> graphs_;
};

/// Storages that several parts of the program touch outlive a run: the next part reads them.
void add_persistent_roots(const Graph& graph, const AliasClasses& aliases, TensorSet& live) {
  const auto in_first_part = [&](const Op* op) {
    return op->context.execution == graph.ops().front()->context.execution;
  };
  if (std::all_of(graph.ops().begin(), graph.ops().end(), in_first_part)) return;
  TensorMap<std::optional<ExecutionContext>> first_part;
  for (const Op* op : graph.ops()) {
    const auto touch = [&](const Tensor* tensor) {
      if (tensor == nullptr) return;
      const Tensor* root = aliases.root(tensor);
      std::optional<ExecutionContext>& first = first_part[root];
      if (!first) first = op->context.execution;
      if (first != op->context.execution) live.insert(root);
    };
    for (const Tensor* input : op->inputs()) touch(input);
    for (const Tensor* output : op->outputs()) touch(output);
  }
}

void eliminate(Graph& graph, Effects& effects) {
  const AliasClasses aliases(graph);
  TensorSet live;
  for (const Tensor* output : graph.outputs()) live.insert(aliases.root(output));
  for (const Tensor* input : graph.inputs()) live.insert(input);
  add_persistent_roots(graph, aliases, live);
  std::vector<Op*> dead;
  for (Op* last : std::views::reverse(graph.ops())) {
    Op& op = *last;
    bool keep = effects.has(op);
    for (const Tensor* output : op.outputs()) keep = keep || live.contains(aliases.root(output));
    for (int k : op.modified_inputs()) {
      const Tensor* root = op.input(k) == nullptr ? nullptr : aliases.root(op.input(k));
      keep = keep ||
             (root != nullptr && (live.contains(root) || root->kind() == TensorKind::Variable));
    }
    if (!keep) {
      dead.push_back(&op);
      continue;
    }
    for (const Tensor* input : op.inputs()) {
      if (input != nullptr) live.insert(aliases.root(input));
    }
  }
  graph.erase_ops(dead);
}

}  // namespace

void eliminate_dead_code(Graph& graph) {
  Effects effects;
  eliminate(graph, effects);
}

void eliminate_dead_code(Ir& ir) {
  Effects effects;
  for (Graph* graph : ir.graphs()) eliminate(*graph, effects);
}

void erase_unreachable_graphs(Ir& ir) {
  std::set<const Graph*> reached;
  std::vector<const Graph*> pending = {&ir.main_graph()};
  while (!pending.empty()) {
    const Graph* graph = pending.back();
    pending.pop_back();
    if (!reached.insert(graph).second) continue;
    for (const Graph* callee : called_graphs(*graph)) pending.push_back(callee);
  }
  std::vector<Graph*> unreached = ir.graphs();
  std::erase_if(unreached, [&](const Graph* graph) { return reached.contains(graph); });
  ir.erase_graphs(unreached);
}

}  // namespace pando
