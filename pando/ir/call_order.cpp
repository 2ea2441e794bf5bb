#include "pando/ir/call_order.hpp"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "pando/base/error.hpp"

namespace pando {
namespace {

/// A depth-first walk over calls that goes into every graph once.
class CallWalk {
 public:
  /// `leave(graph)` comes after all that it calls. `back(graph)` comes for a call of a graph on the
  /// way to the current one; true ends the walk.
  template <class Enter, class Leave, class Back>
  void run(Graph& root, const Enter& may_enter, const Leave& leave, const Back& back) {
    if (!states_.contains(&root) && may_enter(root)) enter(root);
    while (!way_.empty()) {
      Step& step = way_.back();
      if (step.next == step.callees.size()) {
        states_[step.graph] = State::Left;
        leave(*step.graph);
        way_.pop_back();
        continue;
      }
      Graph& callee = *step.callees[step.next++];
      const auto known = states_.find(&callee);
      if (known == states_.end()) {
        if (may_enter(callee)) enter(callee);
      } else if (known->second == State::OnTheWay && back(callee)) {
        return;
      }
    }
  }

  /// The current way from `graph` on.
  std::vector<const Graph*> way_from(const Graph& graph) const {
    std::vector<const Graph*> result;
    for (const Step& step : way_) {
      if (!result.empty() || step.graph == &graph) result.push_back(step.graph);
    }
    return result;
  }

 private:
  enum class State : std::uint8_t { OnTheWay, Left };
  struct Step {
    Graph* graph;
    std::vector<Graph*> callees;
    std::size_t next = 0;
  };

  void enter(Graph& graph) {
    states_[&graph] = State::OnTheWay;
    way_.push_back({&graph, called_graphs(graph)});
  }

  std::vector<Step> way_;
  std::unordered_map<const Graph*, State> states_;
};

bool runs(const Graph& from, const Graph& to) {
  std::unordered_set<const Graph*> known = {&from};
  std::vector<const Graph*> pending = {&from};
  while (!pending.empty()) {
    const Graph* graph = pending.back();
    pending.pop_back();
    if (graph == &to) return true;
    for (const Graph* callee : called_graphs(*graph)) {
      if (known.insert(callee).second) pending.push_back(callee);
    }
  }
  return false;
}

/// The graphs on a way of calls from `from` to `to`, which it runs.
std::vector<const Graph*> chain_of_calls(const Graph& from, const Graph& to) {
  std::vector<const Graph*> chain = {&from};
  while (chain.back() != &to) {
    const std::vector<Graph*> callees = called_graphs(*chain.back());
    chain.push_back(*std::find_if(callees.begin(), callees.end(),
                                  [&](const Graph* callee) { return runs(*callee, to); }));
  }
  return chain;
}

}  // namespace

std::vector<Graph*> called_graphs(const Graph& graph) {
  std::vector<Graph*> result;
  std::unordered_set<const Graph*> known;
  std::size_t callers_left = graph.op_list().num_callers();
  for (const Op* op = graph.op_list().first(); callers_left > 0; op = op->next()) {
    if (op->def().num_called_graphs == 0) continue;
    --callers_left;
    for (Graph* callee : op->called_graphs) {
      if (known.insert(callee).second) result.push_back(callee);
    }
  }
  return result;
}

std::vector<Graph*> callees_first(const std::vector<Graph*>& roots,
                                  const std::function<bool(const Graph&)>& skip) {
  std::vector<Graph*> order;
  CallWalk walk;
  for (Graph* root : roots) {
    walk.run(
        *root, [&](const Graph& graph) { return !skip || !skip(graph); },
        [&](Graph& graph) { order.push_back(&graph); }, [](const Graph&) { return false; });
  }
  return order;
}

std::string called_graphs_fault(const Op& op) {
  const auto count = static_cast<std::size_t>(op.def().num_called_graphs);
  if (op.called_graphs.size() == count) return "";
  return str_cat("needs ", count, " called graphs, has ", op.called_graphs.size());
}

void note_calls(const Op& op) {
  for (const Graph* callee : op.called_graphs) {
    if (callee->is_main()) {
      throw ValueError(str_cat(describe(op),
                               ": the main graph cannot be called; put what is to run several "
                               "times into a graph of its own"));
    }
    const bool may_close = op.graph().was_called || callee == &op.graph();
    if (!may_close || !runs(*callee, op.graph())) continue;
    throw ValueError(str_cat(describe(op),
                             ": a graph cannot call itself, directly or through others; given a "
                             "call of ",
                             call_chain_text(chain_of_calls(*callee, op.graph()))));
  }
  for (Graph* callee : op.called_graphs) callee->was_called = true;
}

std::vector<const Graph*> find_recursion(const Ir& ir) {
  CallWalk walk;
  std::vector<const Graph*> circle;
  for (Graph* graph : ir.graphs()) {
    walk.run(
        *graph, [](const Graph&) { return true; }, [](const Graph&) {},
        [&](const Graph& again) {
          circle = walk.way_from(again);
          circle.push_back(&again);
          return true;
        });
    if (!circle.empty()) break;
  }
  return circle;
}

std::string call_chain_text(const std::vector<const Graph*>& chain) {
  std::string text;
  for (const Graph* graph : chain) {
    text += str_cat(text.empty() ? "'" : ", which calls '", graph->id(), "'");
  }
  return text;
}

}  // namespace pando
