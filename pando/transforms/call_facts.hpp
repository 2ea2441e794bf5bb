// What is known of a tensor wherever it comes from: through calls, into them and out of them.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "pando/ir/graph.hpp"
#include "pando/transforms/purity.hpp"

namespace pando {

/// Looks at an Ir as it is when constructed; what Purity keeps valid keeps this valid.
class CallFacts {
 public:
  explicit CallFacts(const Ir& ir) {
    for (const Graph* graph : ir.graphs()) {
      if (graph->op_list().num_callers() == 0) continue;
      for (const Op* op : graph->ops()) {
        for (const Graph* callee : op->called_graphs) {
          if (op->def().is_call) {
            calls_[callee].push_back(op);
          } else {
            run_otherwise_.insert(callee);
          }
        }
      }
    }
  }

  /// `known(tensor)` for what an op or the host made; of an input of a called graph what all calls
  /// agree on, of an output of a call what is known in the callee. nullopt where they do not agree,
  /// and for what some op writes in place.
  template <class Known>
  auto of(const Tensor& tensor, const Known& known) -> decltype(known(tensor)) {
    if (is_written(tensor)) return std::nullopt;
    const Op* producer = tensor.producer();
    if (producer != nullptr && producer->def().is_call) {
      const Graph& callee = *producer->called_graphs.front();
      return of(*callee.outputs()[static_cast<std::size_t>(tensor.producer_index())], known);
    }
    return tensor.kind() == TensorKind::GraphInput ? of_argument(tensor, known) : known(tensor);
  }

  bool is_written(const Tensor& tensor) {
    std::unique_ptr<Purity>& purity = purity_[&tensor.graph()];
    if (purity == nullptr) purity = std::make_unique<Purity>(tensor.graph());
    return purity->is_written(tensor);
  }

 private:
  template <class Known>
  auto of_argument(const Tensor& input, const Known& known) -> decltype(known(input)) {
    const Graph& graph = input.graph();
    const auto calls = calls_.find(&graph);
    if (calls == calls_.end() || run_otherwise_.contains(&graph)) return std::nullopt;
    // A call may be given what another call of the same graph made.
    if (!open_.insert(&input).second) return std::nullopt;
    const auto agreed = agreed_argument(input, calls->second, known);
    open_.erase(&input);
    return agreed;
  }

  template <class Known>
  auto agreed_argument(const Tensor& input, const std::vector<const Op*>& calls, const Known& known)
      -> decltype(known(input)) {
    const auto& inputs = input.graph().inputs();
    const auto index =
        static_cast<int>(std::find(inputs.begin(), inputs.end(), &input) - inputs.begin());
    decltype(known(input)) agreed;
    for (const Op* call : calls) {
      if (call->input(index) == nullptr) return std::nullopt;
      const auto fact = of(*call->input(index), known);
      if (!fact || (agreed && *agreed != *fact)) return std::nullopt;
      agreed = fact;
    }
    return agreed;
  }

  std::unordered_map<const Graph*, std::vector<const Op*>> calls_;
  std::unordered_set<const Graph*> run_otherwise_;  // by loops and conditionals
  std::unordered_set<const Tensor*> open_;          // inputs that are being looked at
  std::unordered_map<const Graph*, std::unique_ptr<Purity>> purity_;
};

}  // namespace pando
