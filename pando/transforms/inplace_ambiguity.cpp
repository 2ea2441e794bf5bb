#include "pando/transforms/inplace_ambiguity.hpp"

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "pando/base/error.hpp"
#include "pando/transforms/dependencies.hpp"
#include "pando/transforms/op_order.hpp"

namespace pando {
namespace {

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
      : ends_(roots.size()) {
    for (std::size_t i = 0; i < roots.size(); ++i) number_[roots[i]] = static_cast<int>(i);
    std::vector<std::pair<std::size_t, Access>> found;  // with the number of the storage
    for (std::size_t i = 0; i < graph.ops().size(); ++i) {
      const Op& op = *graph.ops()[i];
      const InputSet modified = op.modified_inputs();
      for (int k = 0; k < op.num_inputs(); ++k) {
        const int number = op.input(k) == nullptr ? -1 : number_.at(aliases.root(op.input(k)));
        if (number < 0) continue;
        const auto root = static_cast<std::size_t>(number);
        found.push_back({root, {static_cast<int>(i), modified.contains(k)}});
        ++ends_[root];
      }
    }
    std::size_t begin = 0;
    for (std::size_t& end : ends_) begin += std::exchange(end, begin);
    all_.resize(found.size());
    for (const auto& [root, access] : found) all_[ends_[root]++] = access;
  }

  std::span<const Access> of(const Tensor* root) const {
    const auto number = static_cast<std::size_t>(number_.at(root));
    const std::size_t begin = number == 0 ? 0 : ends_[number - 1];
    return std::span(all_).subspan(begin, ends_[number] - begin);
  }

 private:
  TensorMap<int> number_{-1};
  std::vector<Access> all_;        // storage by storage
  std::vector<std::size_t> ends_;  // by storage
};

/// The pairs of accesses to one storage that put all that conflict in order if they are in order
/// themselves: each write with the reads since the write before it, or with that one.
void add_neighbours(std::span<const Access> accesses, std::vector<OpPair>& pairs) {
  const auto add = [&](int earlier, int later) {
    if (earlier != later) pairs.push_back({earlier, later});
  };
  std::size_t since = 0;  // of the accesses, the first after the last write
  for (std::size_t j = 0; j < accesses.size(); ++j) {
    if (!accesses[j].write) {
      if (since > 0) add(accesses[since - 1].op, accesses[j].op);
      continue;
    }
    if (since == j && j > 0) add(accesses[j - 1].op, accesses[j].op);
    for (std::size_t i = since; i < j; ++i) add(accesses[i].op, accesses[j].op);
    since = j + 1;
  }
}

/// All pairs of accesses to one storage that must be in order.
std::vector<OpPair> conflicts(const Graph& graph, std::span<const Access> accesses) {
  std::vector<OpPair> pairs;
  for (std::size_t j = 0; j < accesses.size(); ++j) {
    for (std::size_t i = 0; i < j; ++i) {
      if (!accesses[i].write && !accesses[j].write) continue;
      if (accesses[i].op == accesses[j].op) continue;
      const Op& first = *graph.ops()[static_cast<std::size_t>(accesses[i].op)];
      const Op& second = *graph.ops()[static_cast<std::size_t>(accesses[j].op)];
      if (!first.called_graphs.empty() && !second.called_graphs.empty()) continue;
      // Parts of the program that never run together are ordered by the session.
      if (first.context.execution != second.context.execution) continue;
      pairs.push_back({accesses[i].op, accesses[j].op});
    }
  }
  return pairs;
}

void refuse_unordered(const Graph& graph, const Tensor& root, std::span<const Access> accesses,
                      const OpOrder& order) {
  const std::vector<OpPair> pairs = conflicts(graph, accesses);
  const std::vector<bool> ordered = order.are_ordered(pairs);
  const auto wrong = std::find(ordered.begin(), ordered.end(), false);
  if (wrong == ordered.end()) return;
  const OpPair& pair = pairs[static_cast<std::size_t>(wrong - ordered.begin())];
  throw Error(ErrorCode::UnorderedAccess,
              str_cat("Inplacing ambiguity detected. Tensor '", root.name(),
                      "' is written and used by two ops without an order between them: ",
                      describe(*graph.ops()[static_cast<std::size_t>(pair.earlier)]), " and ",
                      describe(*graph.ops()[static_cast<std::size_t>(pair.later)]),
                      ". Give them an order, or compile without this check"));
}

void check(const Graph& graph) {
  const AliasClasses aliases(graph);
  const std::vector<const Tensor*> written = written_roots(graph, aliases);
  if (written.empty()) return;
  const AccessLists accesses(graph, aliases, written);
  std::vector<OpPair> neighbours;
  std::vector<std::size_t> ends;  // of the pairs of each storage
  for (const Tensor* root : written) {
    add_neighbours(accesses.of(root), neighbours);
    ends.push_back(neighbours.size());
  }
  const OpOrder order(graph);
  const std::vector<bool> ordered = order.are_ordered(neighbours);
  std::size_t begin = 0;
  for (std::size_t i = 0; i < written.size(); ++i) {
    const auto first = ordered.begin() + static_cast<std::ptrdiff_t>(begin);
    const auto last = ordered.begin() + static_cast<std::ptrdiff_t>(ends[i]);
    // Neighbours may be exempt: then every pair is looked at.
    if (std::find(first, last, false) != last) {
      refuse_unordered(graph, *written[i], accesses.of(written[i]), order);
    }
    begin = ends[i];
  }
}

}  // namespace

void check_inplace_ambiguity(const Ir& ir) {
  for (const Graph* graph : ir.graphs()) check(*graph);
}

}  // namespace pando
