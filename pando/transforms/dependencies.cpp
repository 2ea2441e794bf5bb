#include "pando/transforms/dependencies.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "pando/base/error.hpp"

namespace pando {
namespace {

/// What an op touches besides tensors: the names of streams, buffers and the terminal.
using EffectCache = std::unordered_map<const Graph*, std::set<std::string>>;

const std::set<std::string>& graph_effects(const Graph& graph, EffectCache& cache);

void add_effects(const Op& op, EffectCache& cache, std::set<std::string>& effects) {
  for (const Graph* callee : op.called_graphs)
    effects.merge(std::set(graph_effects(*callee, cache)));
  if (!op.def().has_side_effects) return;
  if (op.attributes.has("stream")) {
    effects.insert("stream " + op.attributes.text("stream"));
  } else if (op.attributes.has("buffer")) {
    effects.insert(str_cat("buffer ", op.attributes.integer("buffer")));
  } else {
    effects.insert(op.kind());
  }
}

const std::set<std::string>& graph_effects(const Graph& graph, EffectCache& cache) {
  const auto it = cache.find(&graph);
  if (it != cache.end()) return it->second;
  std::set<std::string> effects;
  for (const Op* op : graph.ops()) add_effects(*op, cache, effects);
  return cache[&graph] = std::move(effects);
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

bool contains(const std::vector<int>& values, int value) {
  return std::find(values.begin(), values.end(), value) != values.end();
}

/// Ancestor sets as bit rows.
class Ancestors {
 public:
  explicit Ancestors(const Graph& graph)
      : words_((graph.ops().size() + 63) / 64), bits_(words_ * graph.ops().size()) {
    std::unordered_map<const Op*, int> position;
    position.reserve(graph.ops().size());
    for (std::size_t i = 0; i < graph.ops().size(); ++i) {
      const Op* op = graph.ops()[i];
      const auto add = [&](const Op* earlier) {
        const auto it = position.find(earlier);
        if (it != position.end()) merge(static_cast<int>(i), it->second);
      };
      for (const Tensor* input : op->inputs()) {
        if (input != nullptr && input->producer() != nullptr) add(input->producer());
      }
      for (const Op* earlier : op->after) add(earlier);
      position[op] = static_cast<int>(i);
    }
  }

  bool ordered(int earlier, int later) const {
    const auto e = static_cast<std::size_t>(earlier);
    return (row(later)[e / 64] >> (e % 64) & 1) != 0;
  }

 private:
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
  std::unordered_map<const Op*, int> position;
  position.reserve(graph.ops().size());
  TensorMap<AccessHistory> storages;
  std::map<std::string, AccessHistory> effects;
  EffectCache effect_cache;
  AccessRecorder accesses;
  for (std::size_t i = 0; i < graph.ops().size(); ++i) {
    const Op& op = *graph.ops()[i];
    const int index = static_cast<int>(i);
    std::vector<int>& predecessors = result[i];
    const std::vector<int> modified = op.modified_inputs();
    for (int k = 0; k < op.num_inputs(); ++k) {
      const Tensor* input = op.input(k);
      if (input == nullptr) continue;
      if (input->producer() != nullptr) predecessors.push_back(position.at(input->producer()));
      accesses.record(storages[aliases.root(input)], index, contains(modified, k), predecessors);
    }
    if (op.def().has_side_effects || !op.called_graphs.empty()) {
      std::set<std::string> touched;
      add_effects(op, effect_cache, touched);
      for (const std::string& effect : touched) {
        accesses.record(effects[effect], index, true, predecessors);
      }
    }
    std::sort(predecessors.begin(), predecessors.end());
    predecessors.erase(std::unique(predecessors.begin(), predecessors.end()), predecessors.end());
    position[&op] = index;
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
  for (const Tensor* input : graph.inputs()) result.push_back(written.contains(input));
  return result;
}

void check_inplace_ambiguity(const Ir& ir) {
  for (const Graph* graph : ir.graphs()) {
    const AliasClasses aliases(*graph);
    TensorMap<std::vector<Access>> accesses;
    std::vector<const Tensor*> written;
    for (std::size_t i = 0; i < graph->ops().size(); ++i) {
      const Op& op = *graph->ops()[i];
      const std::vector<int> modified = op.modified_inputs();
      for (int k = 0; k < op.num_inputs(); ++k) {
        if (op.input(k) == nullptr) continue;
        const Tensor* root = aliases.root(op.input(k));
        const bool write = contains(modified, k);
        if (write) written.push_back(root);
        accesses[root].push_back({static_cast<int>(i), write});
      }
    }
    if (written.empty()) continue;
    std::sort(written.begin(), written.end());
    written.erase(std::unique(written.begin(), written.end()), written.end());
    const Ancestors ancestors(*graph);
    for (const Tensor* root : written) check_accesses(*graph, *root, accesses[root], ancestors);
  }
}

}  // namespace pando
