#include "pando/transforms/dependencies.hpp"

#include <map>
#include <set>
#include <utility>

#include "pando/base/error.hpp"
#include "pando/ir/call_order.hpp"

namespace pando {
namespace {

/// Last write of a storage or an effect, and the reads since.
struct AccessHistory {
  int last_write = -1;
  int last_read = -1;  // index of AccessRecorder::reads_
};

/// The predecessors of one op after the other, each once.
class PredecessorList {
 public:
  explicit PredecessorList(std::size_t num_ops) : successors_(num_ops, -1) {}

  void begin(int op) {
    op_ = op;
    all_.clear();
  }
  void add(int op) {
    if (op == op_ || std::exchange(successors_[static_cast<std::size_t>(op)], op_) == op_) return;
    all_.push_back(op);
  }
  const std::vector<int>& all() const { return all_; }

 private:
  int op_ = -1;
  std::vector<int> all_;
  std::vector<int> successors_;  // by op: whose predecessor it was last
};

class AccessRecorder {
 public:
  void record(AccessHistory& history, int op, bool write, PredecessorList& predecessors) {
    if (history.last_write >= 0) predecessors.add(history.last_write);
    if (!write) {
      reads_.push_back({op, history.last_read});
      history.last_read = static_cast<int>(reads_.size()) - 1;
      return;
    }
    for (int i = history.last_read; i >= 0; i = reads_[static_cast<std::size_t>(i)].earlier) {
      predecessors.add(reads_[static_cast<std::size_t>(i)].op);
    }
    history = {op, -1};
  }

 private:
  /// All reads in one list, as most storages have one or two; each knows the one before it.
  struct Read {
    int op;
    int earlier;
  };
  std::vector<Read> reads_;
};

}  // namespace

AliasClasses::AliasClasses(const Graph& graph) {
  for (const Op* op : graph.ops()) add(*op);
}

void AliasClasses::add(const Op& op) {
  if (!op.def().output_alias) return;
  for (int i = 0; i < op.num_outputs(); ++i) {
    const int input = op.def().output_alias(op, i);
    if (input >= 0 && op.input(input) != nullptr) join(op.output(i), op.input(input));
  }
}

Tensor* AliasClasses::root(const Tensor* tensor) const {
  auto* result = const_cast<Tensor*>(tensor);
  while (Tensor* parent = parent_.at(result)) result = parent;
  return result;
}

std::set<std::string> EffectNames::of(const Op& op) {
  const auto is_known = [&](const Graph& graph) { return of_graphs_.contains(&graph); };
  for (const Graph* graph : callees_first(op.called_graphs, is_known)) {
    std::set<std::string> inner;
    for (const Op* inner_op : graph->ops()) add_known(*inner_op, inner);
    of_graphs_[graph] = std::move(inner);
  }
  std::set<std::string> effects;
  add_known(op, effects);
  return effects;
}

/// The effects of its callees are known.
void EffectNames::add_known(const Op& op, std::set<std::string>& effects) const {
  for (const Graph* callee : op.called_graphs) {
    const std::set<std::string>& inner = of_graphs_.at(callee);
    effects.insert(inner.begin(), inner.end());
  }
  if (!op.def().has_side_effects) return;
  if (op.attributes.has("stream")) {
    effects.insert("stream " + op.attributes.text("stream"));
  } else if (op.attributes.has("buffer")) {
    effects.insert(str_cat("buffer ", op.attributes.integer("buffer")));
  } else {
    effects.insert(op.kind_name());
  }
}

OpPredecessors dependencies(const Graph& graph, const AliasClasses& aliases,
                            EffectNames& effects_of_ops) {
  OpPredecessors result(graph.ops().size());
  TensorMap<int> producer(-1);
  TensorMap<AccessHistory> storages;
  std::map<std::string, AccessHistory> effects;
  AccessRecorder accesses;
  PredecessorList predecessors(graph.ops().size());
  for (std::size_t i = 0; i < graph.ops().size(); ++i) {
    const Op& op = *graph.ops()[i];
    const int index = static_cast<int>(i);
    predecessors.begin(index);
    const InputSet modified = op.modified_inputs();
    for (int k = 0; k < op.num_inputs(); ++k) {
      const Tensor* input = op.input(k);
      if (input == nullptr) continue;
      if (input->producer() != nullptr) {
        const int earlier = producer.at(input);
        internal_check(earlier >= 0, "an op must come after those that make its inputs");
        predecessors.add(earlier);
      }
      accesses.record(storages[aliases.root(input)], index, modified.contains(k), predecessors);
    }
    if (op.def().has_side_effects || !op.called_graphs.empty()) {
      for (const std::string& effect : effects_of_ops.of(op)) {
        accesses.record(effects[effect], index, true, predecessors);
      }
    }
    result.add(predecessors.all());
    for (const Tensor* output : op.outputs()) producer[output] = index;
  }
  return result;
}

std::vector<bool> modified_graph_inputs(const Graph& graph, const AliasClasses& aliases) {
  TensorSet written;
  for (const Op* op : graph.ops()) {
    for (int k : op->modified_inputs()) {
      if (op->input(k) != nullptr) written.insert(aliases.root(op->input(k)));
    }
  }
  std::vector<bool> result;
  result.reserve(graph.inputs().size());
  for (const Tensor* input : graph.inputs()) result.push_back(written.contains(input));
  return result;
}

}  // namespace pando
