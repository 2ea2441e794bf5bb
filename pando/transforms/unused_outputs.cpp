#include "pando/transforms/unused_outputs.hpp"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <vector>

#include "pando/base/error.hpp"
#include "pando/ir/call_order.hpp"
#include "pando/ir/numbered_map.hpp"
#include "pando/ir/op_maker.hpp"
#include "pando/transforms/dead_code.hpp"

namespace pando {
namespace {

using Mask = std::vector<bool>;  // by output: whether it is wanted

constexpr double kLeastShareOfCopy = 1.0 / 8;

/// The ops that run a graph, and how often all of them do.
struct Sites {
  std::vector<std::pair<Op*, double>> calls;
  double other_runs = 0;  // of loops and conditionals
};

Mask wanted_outputs(const Op& call) {
  Mask mask;
  for (const Tensor* output : call.outputs()) {
    mask.push_back(!output->uses().empty() || output->is_graph_output());
  }
  return mask;
}

Mask either(const Mask& a, const Mask& b) {
  Mask result = a;
  for (std::size_t i = 0; i < b.size(); ++i) result[i] = a[i] || b[i];
  return result;
}

template <class T>
std::vector<T*> chosen(const std::vector<T*>& all, const Mask& mask) {
  std::vector<T*> result;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (mask[i]) result.push_back(all[i]);
  }
  return result;
}

void keep_outputs(Op& call, const Mask& mask) {
  const std::vector<Tensor*> all = call.outputs();
  for (int i = call.num_outputs(); i-- > 0;) call.set_output(i, nullptr);
  int next = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (mask[i]) {
      call.set_output(next++, all[i]);
    } else {
      call.graph().erase_tensor(*all[i]);
    }
  }
}

/// Another graph of the same Ir that computes the same.
Graph& copy_of(const Graph& graph) {
  const std::string& id = graph.id();
  Graph& copy = graph.ir().create_graph(id.substr(0, id.rfind("_subgraph(")));
  copy.differentiable = graph.differentiable;
  std::unordered_map<const Tensor*, Tensor*> tensors;
  for (const Tensor* input : graph.inputs()) {
    tensors[input] =
        copy.add_input(copy.unique_tensor_id(input->name()), input->info, input->is_by_ref());
  }
  for (const Tensor* source : graph.tensors().sources()) {
    internal_check(source->kind() == TensorKind::Constant,
                   "a callee may only use its inputs, constants and op outputs");
    tensors[source] =
        copy.add_constant(copy.unique_tensor_id(source->name()), source->info, source->data);
  }
  OpMap<Op*> ops;
  for (const Op* op : graph.ops()) {
    Op& new_op = OpMaker(copy).clone_unconnected(*op);
    for (int i = 0; i < op->num_inputs(); ++i) {
      if (op->input(i) != nullptr) new_op.set_input(i, tensors.at(op->input(i)));
    }
    for (const Tensor* output : op->outputs()) {
      tensors[output] = new_op.add_output(copy.unique_tensor_id(output->name()), output->info);
    }
    ops[op] = &new_op;
  }
  for (const Op* op : graph.ops()) {
    for (const Op* earlier : op->after()) ops.at(op)->run_after(*ops.at(earlier));
  }
  for (const Tensor* output : graph.outputs()) copy.mark_output(tensors.at(output));
  return copy;
}

class OutputDropper {
 public:
  explicit OutputDropper(Ir& ir) : ir_(ir) {}

  void run() {
    const std::vector<Graph*> order = callees_first({&ir_.main_graph()});
    runs_[&ir_.main_graph()] = 1;
    for (auto graph = order.rbegin(); graph != order.rend(); ++graph) {
      if (!(*graph)->is_main()) specialise(**graph);
      note_sites(**graph);
    }
  }

 private:
  void note_sites(Graph& graph) {
    const double runs = runs_[&graph];
    for (Op* op : graph.ops()) {
      for (Graph* callee : op->called_graphs) {
        if (op->def().is_call) {
          sites_[callee].calls.emplace_back(op, runs);
          runs_[callee] += runs;
        } else {
          // A loop of no trips wants its outputs, too.
          const std::int64_t trips =
              std::max<std::int64_t>(op->attributes.integer_or("trip_count", 1), 1);
          sites_[callee].other_runs += runs * static_cast<double>(trips);
          runs_[callee] += runs * static_cast<double>(trips);
        }
      }
    }
  }

  /// All calls of `graph` are known.
  void specialise(Graph& graph) {
    const Sites& sites = sites_[&graph];
    const std::size_t outputs = graph.outputs().size();
    std::map<Mask, double> runs_of;
    for (const auto& [call, runs] : sites.calls) runs_of[wanted_outputs(*call)] += runs;
    if (sites.other_runs > 0) runs_of[Mask(outputs, true)] += sites.other_runs;
    if (runs_of.empty()) return;
    const Mask most = std::max_element(runs_of.begin(), runs_of.end(), [](auto& a, auto& b) {
                        return a.second < b.second;
                      })->first;
    Mask rest(outputs, false);
    double runs_of_rest = 0;
    for (const auto& [mask, runs] : runs_of) {
      if (mask == most) continue;
      rest = either(rest, mask);
      runs_of_rest += runs;
    }
    const bool separate =
        runs_of_rest >= kLeastShareOfCopy * runs_[&graph] && rest != most && sites.other_runs == 0;
    const Mask first = separate ? most : either(most, rest);
    std::vector<Op*> calls, calls_of_copy;
    for (const auto& [call, runs] : sites.calls) {
      const bool to_copy = separate && wanted_outputs(*call) != most;
      (to_copy ? calls_of_copy : calls).push_back(call);
    }
    if (separate) {
      Graph& copy = copy_of(graph);
      runs_[&copy] = runs_of_rest;
      runs_[&graph] -= runs_of_rest;
      for (Op* call : calls_of_copy) call->called_graphs[0] = &copy;
      copy.was_called = true;
      restrict_outputs(copy, calls_of_copy, rest);
      note_sites(copy);
    }
    restrict_outputs(graph, calls, first);
  }

  static void restrict_outputs(Graph& graph, const std::vector<Op*>& calls, const Mask& mask) {
    if (std::all_of(mask.begin(), mask.end(), [](bool wanted) { return wanted; })) return;
    for (Op* call : calls) keep_outputs(*call, mask);
    graph.set_outputs(chosen(graph.outputs(), mask));
    eliminate_dead_code(graph);
  }

  Ir& ir_;
  std::unordered_map<const Graph*, Sites> sites_;
  std::unordered_map<const Graph*, double> runs_;
};

}  // namespace

void drop_unused_outputs(Ir& ir) {
  eliminate_dead_code(ir);
  // Calls in graphs that never run would have to follow, and would keep outputs alive.
  erase_unreachable_graphs(ir);
  OutputDropper(ir).run();
}

}  // namespace pando
