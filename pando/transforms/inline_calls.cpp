#include "pando/transforms/inline_calls.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>

#include "pando/base/error.hpp"
#include "pando/ir/call_order.hpp"
#include "pando/transforms/dead_code.hpp"
#include "pando/transforms/dependencies.hpp"

namespace pando {
namespace {

constexpr const char* kCall = "Call";

std::map<const Graph*, int> count_sites(const Ir& ir) {
  std::map<const Graph*, int> sites;
  for (const Graph* graph : ir.graphs()) {
    for (const Op* op : graph->ops()) {
      for (const Graph* callee : op->called_graphs) ++sites[callee];
    }
  }
  return sites;
}

/// By the call site or by the graph input itself.
bool marked_modified(const Op& call, int input) { return call.modified_inputs().contains(input); }

class Inliner {
 public:
  /// `aliases`: of the graph, kept up to date.
  Inliner(Graph& graph, Op& call, AliasClasses& aliases)
      : graph_(graph),
        aliases_(aliases),
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
      graph_.replace_uses(*call_.output(i), *own);
      if (aliases_.root(call_.output(i)) == call_.output(i)) aliases_.join(call_.output(i), own);
    }
    graph_.set_insertion_point(nullptr);
  }

 private:
  /// By-value inputs are snapshots: a copy when the callee writes its own, or when a by-reference
  /// input of the same storage is written.
  void bind_inputs() {
    const std::vector<bool> written = modified_graph_inputs(callee_, callee_aliases_);
    std::set<const Tensor*> written_outside;
    for (std::size_t i = 0; i < callee_.inputs().size(); ++i) {
      const int k = static_cast<int>(i);
      if (written[i] && marked_modified(call_, k)) {
        written_outside.insert(aliases_.root(call_.input(k)));
      }
    }
    for (std::size_t i = 0; i < callee_.inputs().size(); ++i) {
      const int k = static_cast<int>(i);
      Tensor* outer = call_.input(k);
      if (outer == nullptr) continue;
      const bool by_ref = marked_modified(call_, k);
      const bool snapshot =
          by_ref ? false : (written[i] || written_outside.contains(aliases_.root(outer)));
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
    for (const Tensor* output : op.outputs()) names.push_back(output->name());
    OpContext context = op.context;
    context.phase = call_.context.phase;
    Op& copy = graph_.create_op(op.def(), inputs, op.attributes, std::move(context),
                                op.called_graphs, names);
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
  static const std::set<std::string, std::less<>> kTransfers = {"Init", "RemoteLoad",
                                                                "RemoteLoadInplace", "RemoteStore"};
  return std::all_of(graph.ops().begin(), graph.ops().end(),
                     [](const Op* op) { return kTransfers.contains(op->kind()); });
}

void inline_into(Graph& graph, const std::map<const Graph*, int>& sites, int max_reused_ops) {
  const std::vector<Op*> ops = graph.ops();
  std::optional<AliasClasses> aliases;
  std::vector<Op*> last_first;
  for (Op* op : ops) {
    if (op->kind() != kCall) continue;
    const Graph& callee = *op->called_graphs[0];
    const bool single = sites.at(&callee) == 1;
    const bool tiny = callee.ops().size() <= static_cast<std::size_t>(max_reused_ops) &&
                      callee.called_graphs().empty();
    if (!single && !tiny && !only_transfers(callee)) continue;
    if (!aliases) aliases.emplace(graph);
    Inliner(graph, *op, *aliases).run();
    last_first.push_back(op);
  }
  std::reverse(last_first.begin(), last_first.end());
  graph.erase_ops(last_first);
}

}  // namespace

void inline_calls(Ir& ir, int max_reused_ops) {
  const std::map<const Graph*, int> sites = count_sites(ir);
  // What is inlined has been inlined into already.
  for (Graph* graph : callees_first({&ir.main_graph()})) {
    inline_into(*graph, sites, max_reused_ops);
  }
  erase_unreachable_graphs(ir);
}

}  // namespace pando
