#include "pando/transforms/dependencies.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "pando/base/error.hpp"
#include "pando/ir/call_order.hpp"

namespace pando {
namespace {

/// What an op touches besides tensors: the names of streams, buffers and the terminal.
using EffectCache = std::unordered_map<const Graph*, std::set<std::string>>;

/// `known`: those of its callees.
void add_known_effects(const Op& op, const EffectCache& known, std::set<std::string>& effects) {
  for (const Graph* callee : op.called_graphs) effects.merge(std::set(known.at(callee)));
  if (!op.def().has_side_effects) return;
  if (op.attributes.has("stream")) {
    effects.insert("stream " + op.attributes.text("stream"));
  } else if (op.attributes.has("buffer")) {
    effects.insert(str_cat("buffer ", op.attributes.integer("buffer")));
  } else {
    effects.insert(op.kind());
  }
}

void add_effects(const Op& op, EffectCache& cache, std::set<std::string>& effects) {
  const auto is_known = [&](const Graph& graph) { return cache.contains(&graph); };
  for (const Graph* graph : callees_first(op.called_graphs, is_known)) {
    std::set<std::string> inner;
    for (const Op* inner_op : graph->ops()) add_known_effects(*inner_op, cache, inner);
    cache[graph] = std::move(inner);
  }
  add_known_effects(op, cache, effects);
}

/// Last write of a storage or an effect, and the reads since.
struct AccessHistory {
  int last_write = -1;
  int last_read = -1;  // index of AccessRecorder::reads_
};

class AccessRecorder {
 public:
  void record(AccessHistory& history, int op, bool write, std::vector<int>& predecessors) {
    if (history.last_write >= 0 && history.last_write != op) {
      predecessors.push_back(history.last_write);
    }
    if (!write) {
      reads_.push_back({op, history.last_read});
      history.last_read = static_cast<int>(reads_.size()) - 1;
      return;
    }
    for (int i = history.last_read; i >= 0; i = reads_[static_cast<std::size_t>(i)].earlier) {
      const int read = reads_[static_cast<std::size_t>(i)].op;
      if (read != op) predecessors.push_back(read);
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

/// Ancestor sets as bit rows.
class Ancestors {
 public:
  explicit Ancestors(const Graph& graph)
      : words_((graph.ops().size() + 63) / 64), bits_(words_ * graph.ops().size()) {
    TensorMap<int> producer(-1);
    const std::unordered_map<const Op*, int> in_sequence = sequenced_positions(graph);
    for (std::size_t i = 0; i < graph.ops().size(); ++i) {
      const Op* op = graph.ops()[i];
      const int position = static_cast<int>(i);
      for (const Tensor* input : op->inputs()) {
        const int earlier = input == nullptr ? -1 : producer.at(input);
        if (earlier >= 0) merge(position, earlier);
      }
      for (const Op* op_before : op->after) {
        const auto it = in_sequence.find(op_before);
        if (it != in_sequence.end() && it->second < position) merge(position, it->second);
      }
      for (const Tensor* output : op->outputs()) producer[output] = position;
    }
  }

  bool ordered(int earlier, int later) const {
    const auto e = static_cast<std::size_t>(earlier);
    return (row(later)[e / 64] >> (e % 64) & 1) != 0;
  }

 private:
  /// Positions of the ops that others come after by `Op::after`.
  static std::unordered_map<const Op*, int> sequenced_positions(const Graph& graph) {
    std::unordered_map<const Op*, int> positions;
    for (const Op* op : graph.ops()) {
      for (const Op* earlier : op->after) positions.emplace(earlier, 0);
    }
    if (positions.empty()) return positions;
    for (std::size_t i = 0; i < graph.ops().size(); ++i) {
      const auto it = positions.find(graph.ops()[i]);
      if (it != positions.end()) it->second = static_cast<int>(i);
    }
    return positions;
  }

  void merge(int op, int ancestor) {
    std::uint64_t* to = bits_.data() + static_cast<std::size_t>(op) * words_;
    const std::uint64_t* from = row(ancestor);
    const auto a = static_cast<std::size_t>(ancestor);
    for (std::size_t w = 0; w <= a / 64; ++w) to[w] |= from[w];
    to[a / 64] |= std::uint64_t{1} << (a % 64);
  }
  const std::uint64_t* row(int op) const {
    return bits_.data() + static_cast<std::size_t>(op) * words_;
  }

  std::size_t words_;
  std::vector<std::uint64_t> bits_;  // a row of words per op
};

struct Access {
  int op;
  bool write;
};

/// Storages that ops write, in the order of their first write.
std::vector<const Tensor*> written_roots(const Graph& graph, const AliasClasses& aliases) {
  std::vector<const Tensor*> roots;
  TensorSet known;
  for (const Op* op : graph.ops()) {
    for (int k : op->modified_inputs()) {
      const Tensor* root = op->input(k) == nullptr ? nullptr : aliases.root(op->input(k));
      if (root != nullptr && known.insert(root)) roots.push_back(root);
    }
  }
  return roots;
}

/// The accesses to some storages in the order of the ops.
class AccessLists {
 public:
  AccessLists(const Graph& graph, const AliasClasses& aliases,
              const std::vector<const Tensor*>& roots)
      : lists_(roots.size()) {
    for (std::size_t i = 0; i < roots.size(); ++i) number_[roots[i]] = static_cast<int>(i);
    for (std::size_t i = 0; i < graph.ops().size(); ++i) {
      const Op& op = *graph.ops()[i];
      const InputSet modified = op.modified_inputs();
      for (int k = 0; k < op.num_inputs(); ++k) {
        const int number = op.input(k) == nullptr ? -1 : number_.at(aliases.root(op.input(k)));
        if (number < 0) continue;
        lists_[static_cast<std::size_t>(number)].push_back(
            {static_cast<int>(i), modified.contains(k)});
      }
    }
  }

  const std::vector<Access>& of(const Tensor* root) const {
    return lists_[static_cast<std::size_t>(number_.at(root))];
  }

 private:
  TensorMap<int> number_{-1};
  std::vector<std::vector<Access>> lists_;
};

void check_accesses(const Graph& graph, const Tensor& root, const std::vector<Access>& accesses,
                    const Ancestors& ancestors) {
  for (std::size_t j = 0; j < accesses.size(); ++j) {
    for (std::size_t i = 0; i < j; ++i) {
      if (!accesses[i].write && !accesses[j].write) continue;
      if (accesses[i].op == accesses[j].op) continue;
      if (ancestors.ordered(accesses[i].op, accesses[j].op)) continue;
      const Op& first = *graph.ops()[static_cast<std::size_t>(accesses[i].op)];
      const Op& second = *graph.ops()[static_cast<std::size_t>(accesses[j].op)];
      if (!first.called_graphs.empty() && !second.called_graphs.empty()) continue;
      // Parts of the program that never run together are ordered by the session.
      if (first.context.execution != second.context.execution) continue;
      throw Error(str_cat("Inplacing ambiguity detected. Tensor '", root.name(),
                          "' is written and used by two ops without an order between them: ",
                          describe(first), " and ", describe(second),
                          ". Build them inside `popxl.in_sequence()`, or set the session option "
                          "enableInplaceAmbiguityChecking to False"));
    }
  }
}

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

std::vector<std::vector<int>> dependencies(const Graph& graph, const AliasClasses& aliases) {
  std::vector<std::vector<int>> result(graph.ops().size());
  TensorMap<int> producer(-1);
  TensorMap<AccessHistory> storages;
  std::map<std::string, AccessHistory> effects;
  EffectCache effect_cache;
  AccessRecorder accesses;
  std::vector<int> predecessors;  // of one op
  for (std::size_t i = 0; i < graph.ops().size(); ++i) {
    const Op& op = *graph.ops()[i];
    const int index = static_cast<int>(i);
    predecessors.clear();
    const InputSet modified = op.modified_inputs();
    for (int k = 0; k < op.num_inputs(); ++k) {
      const Tensor* input = op.input(k);
      if (input == nullptr) continue;
      if (input->producer() != nullptr) {
        const int earlier = producer.at(input);
        internal_check(earlier >= 0, "an op must come after those that make its inputs");
        predecessors.push_back(earlier);
      }
      accesses.record(storages[aliases.root(input)], index, modified.contains(k), predecessors);
    }
    if (op.def().has_side_effects || !op.called_graphs.empty()) {
      std::set<std::string> touched;
      add_effects(op, effect_cache, touched);
      for (const std::string& effect : touched) {
        accesses.record(effects[effect], index, true, predecessors);
      }
    }
    std::sort(predecessors.begin(), predecessors.end());
    result[i].assign(predecessors.begin(), std::unique(predecessors.begin(), predecessors.end()));
    for (const Tensor* output : op.outputs()) producer[output] = index;
  }
  return result;
}

std::vector<bool> modified_graph_inputs(const Graph& graph, const AliasClasses& aliases) {
  TensorSet written;
  for (const Tensor* root : written_roots(graph, aliases)) written.insert(root);
  std::vector<bool> result;
  for (const Tensor* input : graph.inputs()) result.push_back(written.contains(input));
  return result;
}

void check_inplace_ambiguity(const Ir& ir) {
  for (const Graph* graph : ir.graphs()) {
    const AliasClasses aliases(*graph);
    const std::vector<const Tensor*> written = written_roots(*graph, aliases);
    if (written.empty()) continue;
    const AccessLists accesses(*graph, aliases, written);
    const Ancestors ancestors(*graph);
    for (const Tensor* root : written) check_accesses(*graph, *root, accesses.of(root), ancestors);
  }
}

}  // namespace pando
