#include "pando/transforms/inline_calls.hpp"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "pando/base/error.hpp"
#include "pando/ir/call_order.hpp"
#include "pando/ir/graph_surgery.hpp"
#include "pando/ir/op_maker.hpp"
#include "pando/transforms/dead_code.hpp"
#include "pando/transforms/dependencies.hpp"

namespace pando {
namespace {

/// Of a graph that is called several times.
constexpr std::size_t kMostReusedOps = 8;

/// The ops that run a graph.
struct Sites {
  int count = 0;
  bool are_calls = true;
};

std::unordered_map<const Graph*, Sites> sites_of_graphs(const Ir& ir) {
  std::unordered_map<const Graph*, Sites> result;
  for (const Graph* graph : ir.graphs()) {
    if (graph->op_list().num_callers() == 0) continue;
    for (const Op* op : graph->ops()) {
      for (const Graph* callee : op->called_graphs) {
        Sites& sites = result[callee];
        ++sites.count;
        sites.are_calls = sites.are_calls && op->def().is_call;
      }
    }
  }
  return result;
}

/// By the call site or by the graph input itself.
bool marked_modified(const Op& call, int input) { return call.modified_inputs().contains(input); }

class Inliner {
 public:
  /// `aliases`: of the graph, kept up to date. `written`: the inputs that the callee writes.
  Inliner(Graph& graph, Op& call, AliasClasses& aliases, const std::vector<bool>& written)
      : graph_(graph),
        aliases_(aliases),
        written_(written),
        call_(call),
        callee_(*call.called_graphs[0]),
        callee_aliases_(callee_),
        builder_(graph, call.context) {}

  /// Leaves the call to be erased.
  void run() {
    graph_.set_insertion_point(&call_);
    bind_inputs();
    for (const Op* op : callee_.ops()) copy_op(*op);
    for (int i = 0; i < call_.num_outputs(); ++i) {
      Tensor* own = result(i);
      replace_uses(*call_.output(i), *own);
      if (aliases_.root(call_.output(i)) == call_.output(i)) aliases_.join(call_.output(i), own);
    }
    graph_.set_insertion_point(nullptr);
  }

 private:
  /// By-value inputs are snapshots: a copy when the callee writes its own, or when a by-reference
  /// input of the same storage is written.
  void bind_inputs() {
    std::set<const Tensor*> written_outside;
    for (std::size_t i = 0; i < callee_.inputs().size(); ++i) {
      const int k = static_cast<int>(i);
      if (written_[i] && marked_modified(call_, k)) {
        written_outside.insert(aliases_.root(call_.input(k)));
      }
    }
    for (std::size_t i = 0; i < callee_.inputs().size(); ++i) {
      const int k = static_cast<int>(i);
      Tensor* outer = call_.input(k);
      if (outer == nullptr) continue;
      const bool by_ref = marked_modified(call_, k);
      const bool snapshot =
          by_ref ? false : (written_[i] || written_outside.contains(aliases_.root(outer)));
      map_[callee_.inputs()[i]] = snapshot ? builder_.make("Identity", {outer}) : outer;
    }
  }

  Tensor* lookup(const Tensor* inner) {
    const auto it = map_.find(inner);
    if (it != map_.end()) return it->second;
    internal_check(inner->kind() == TensorKind::Constant,
                   "a callee may only use its inputs, constants and op outputs");
    Tensor* copy =
        graph_.add_constant(graph_.unique_tensor_id(inner->name()), inner->info, inner->data);
    return map_[inner] = copy;
  }

  void copy_op(const Op& op) {
    std::vector<Tensor*> inputs;
    for (const Tensor* input : op.inputs()) {
      inputs.push_back(input == nullptr ? nullptr : lookup(input));
    }
    std::vector<std::string> names;
    for (const Tensor* output : op.outputs()) names.emplace_back(output->name());
    OpContext context = op.context;
    context.phase = call_.context.phase;
    Op& copy = OpMaker(graph_).copy(op, inputs, std::move(context), names);
    aliases_.add(copy);
    for (int i = 0; i < op.num_outputs(); ++i) {
      copy.output(i)->info.meta_shape = op.output(i)->info.meta_shape;
      map_[op.output(i)] = copy.output(i);
    }
  }

  /// Outputs are snapshots taken when the callee ends: one that shares storage with an input or
  /// with another output gets its own.
  Tensor* result(int index) {
    const Tensor* inner = callee_.outputs()[static_cast<std::size_t>(index)];
    const Tensor* root = callee_aliases_.root(inner);
    const bool own = root->producer() != nullptr && returned_.insert(root).second;
    return own ? lookup(inner) : builder_.make("Identity", {lookup(inner)});
  }

  Graph& graph_;
  AliasClasses& aliases_;
  const std::vector<bool>& written_;
  Op& call_;
  Graph& callee_;
  AliasClasses callee_aliases_;
  OpBuilder builder_;
  std::unordered_map<const Tensor*, Tensor*> map_;
  std::set<const Tensor*> returned_;
};

/// Remote loads of a callee of its own would have ended when it returns; in the caller they may go
/// on while it computes.
bool only_transfers(const Graph& graph) {
  return std::all_of(graph.ops().begin(), graph.ops().end(), [](const Op* op) {
    const bool is_transfer = op->def().is_load || op->def().is_store;
    return op->kind() == OpKind::Init || (is_transfer && op->attributes.has("buffer"));
  });
}

/// Goes through the graphs callees first. What is called once is copied straight into the graph
/// that stays, however deep its call lies.
class CallInliner {
 public:
  explicit CallInliner(const Ir& ir) : sites_(sites_of_graphs(ir)) {}

  void run(Graph& graph) {
    if (!is_called_once(graph)) inline_into(graph);
    written_[&graph] = written_inputs(graph);
  }

 private:
  /// By the one op that will take its place; its own calls wait for that.
  bool is_called_once(const Graph& graph) const {
    const auto sites = sites_.find(&graph);
    return sites != sites_.end() && sites->second.count == 1 && sites->second.are_calls;
  }

  /// run() has seen the callee of `op`.
  bool is_inlined(const Op& op) const {
    if (!op.def().is_call) return false;
    const Graph& callee = *op.called_graphs[0];
    return is_called_once(callee) ||
           (callee.op_list().size() <= kMostReusedOps && called_graphs(callee).empty()) ||
           only_transfers(callee);
  }

  /// By ops of the graph, or of what is inlined into it.
  std::vector<bool> written_inputs(const Graph& graph) const {
    if (graph.inputs().empty()) return {};
    const AliasClasses aliases(graph);
    TensorSet written;
    for (const Op* op = graph.op_list().first(); op != nullptr; op = op->next()) {
      const InputSet modified = op->modified_inputs();
      if (modified.empty()) continue;
      const bool inlined = is_inlined(*op);
      for (int k : modified) {
        const bool writes =
            !inlined || written_.at(op->called_graphs[0])[static_cast<std::size_t>(k)];
        if (writes && op->input(k) != nullptr) written.insert(aliases.root(op->input(k)));
      }
    }
    std::vector<bool> result;
    result.reserve(graph.inputs().size());
    for (const Tensor* input : graph.inputs()) result.push_back(written.contains(input));
    return result;
  }

  void inline_into(Graph& graph) const {
    if (graph.op_list().num_callers() == 0) return;
    std::optional<AliasClasses> aliases;
    for (Op* next = graph.op_list().first(); next != nullptr;) {
      Op& op = *next;
      next = op.next();
      if (!is_inlined(op)) continue;
      if (!aliases) aliases.emplace(graph);
      const Op* before = op.previous();
      Inliner(graph, op, *aliases, written_.at(op.called_graphs[0])).run();
      graph.erase_ops({&op});
      // What was put in its place, if anything was, may call again.
      next = before == nullptr ? graph.op_list().first() : before->next();
    }
  }

  std::unordered_map<const Graph*, Sites> sites_;
  std::unordered_map<const Graph*, std::vector<bool>> written_;
};

}  // namespace

void inline_calls(Ir& ir) {
  CallInliner inliner(ir);
  for (Graph* graph : callees_first({&ir.main_graph()})) inliner.run(*graph);
  erase_unreachable_graphs(ir);
}

}  // namespace pando
