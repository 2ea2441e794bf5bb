#include "pando/compile/schedule.hpp"

#include <algorithm>
#include <cstdint>
#include <unordered_map>

namespace pando {
namespace {

class MemoryScheduler {
 public:
  explicit MemoryScheduler(Graph& graph) : graph_(graph), aliases_(graph) {
    join_views();
    const auto predecessors = dependencies(graph_, AliasClasses(graph));
    const std::size_t count = graph_.ops().size();
    waiting_.resize(count);
    successors_.resize(count);
    for (std::size_t i = 0; i < count; ++i) {
      waiting_[i] = static_cast<int>(predecessors[i].size());
      for (int p : predecessors[i]) {
        successors_[static_cast<std::size_t>(p)].push_back(static_cast<int>(i));
      }
    }
    count_readers();
  }

  void run() {
    std::vector<int> ready;
    for (std::size_t i = 0; i < waiting_.size(); ++i) {
      if (waiting_[i] == 0) ready.push_back(static_cast<int>(i));
    }
    std::vector<Op*> order;
    order.reserve(waiting_.size());
    while (!ready.empty()) {
      const auto best = std::min_element(ready.begin(), ready.end(), [&](int a, int b) {
        const std::int64_t cost_a = cost(a), cost_b = cost(b);
        return cost_a != cost_b ? cost_a < cost_b : a < b;
      });
      const int chosen = *best;
      ready.erase(best);
      finish(chosen);
      order.push_back(op_at(chosen));
      for (int next : successors_[static_cast<std::size_t>(chosen)]) {
        if (--waiting_[static_cast<std::size_t>(next)] == 0) ready.push_back(next);
      }
    }
    graph_.reorder(std::move(order));
  }

 private:
  Op* op_at(int index) const { return graph_.ops()[static_cast<std::size_t>(index)]; }

  /// For counting bytes, a view lives in the storage of what it views.
  void join_views() {
    for (const Op* op : graph_.ops()) {
      if (!op->def().view) continue;
      for (Tensor* output : op->outputs()) aliases_.join(output, op->input(0));
    }
  }

  /// Storages made by ops of this graph count; inputs, variables and constants stay anyway.
  bool counts(const Tensor* root) const { return root->producer() != nullptr; }

  void count_readers() {
    for (const Op* op : graph_.ops()) {
      for (const Tensor* root : read_roots(*op)) ++readers_[root];
    }
    for (const Tensor* output : graph_.outputs()) ++readers_[aliases_.root(output)];
  }

  std::vector<const Tensor*> read_roots(const Op& op) const {
    std::vector<const Tensor*> roots;
    for (const Tensor* input : op.inputs()) {
      if (input == nullptr) continue;
      const Tensor* root = aliases_.root(input);
      if (counts(root) && std::find(roots.begin(), roots.end(), root) == roots.end()) {
        roots.push_back(root);
      }
    }
    return roots;
  }

  /// Bytes alive after the op minus before it.
  std::int64_t cost(int index) const {
    const Op& op = *op_at(index);
    std::int64_t bytes = 0;
    for (const Tensor* output : op.outputs()) {
      if (aliases_.root(output) == output) bytes += static_cast<std::int64_t>(output->info.bytes());
    }
    for (const Tensor* root : read_roots(op)) {
      if (readers_.at(root) == 1) bytes -= static_cast<std::int64_t>(root->info.bytes());
    }
    return bytes;
  }

  void finish(int index) {
    for (const Tensor* root : read_roots(*op_at(index))) --readers_[root];
  }

  Graph& graph_;
  AliasClasses aliases_;
  std::vector<int> waiting_;
  std::vector<std::vector<int>> successors_;
  std::unordered_map<const Tensor*, int> readers_;
};

}  // namespace

void schedule_for_memory(Graph& graph) { MemoryScheduler(graph).run(); }

}  // namespace pando
