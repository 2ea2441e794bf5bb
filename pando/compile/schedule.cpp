#include "pando/compile/schedule.hpp"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <queue>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "pando/compile/device_streams.hpp"

namespace pando {
namespace {

/// Smaller results from nothing cost less than what waits for them.
constexpr std::int64_t kLeastSource = 4096;

class MemoryScheduler {
 public:
  MemoryScheduler(Graph& graph, EffectNames& effects)
      : graph_(graph), aliases_(graph), ops_(graph.ops().size()) {
    const OpPredecessors predecessors = dependencies(graph_, aliases_, effects);
    join_views();
    list_successors(predecessors);
    count_readers();
  }

  void run() {
    for (std::size_t i = 0; i < ops_.size(); ++i) {
      if (ops_[i].waiting == 0) ready_.push(rank(static_cast<int>(i)));
    }
    std::vector<Op*> order;
    order.reserve(ops_.size());
    while (!ready_.empty()) {
      const int chosen = std::get<2>(ready_.top());
      ready_.pop();
      if (node(chosen).done) continue;  // it became cheaper while it was ready
      finish(chosen);
      order.push_back(op_at(chosen));
      for (int next : part(successors_, node(chosen).successors)) {
        if (--node(next).waiting == 0) ready_.push(rank(next));
      }
    }
    graph_.reorder(std::move(order));
  }

 private:
  /// Of a list for all ops: most ops have few successors and read few storages.
  struct Range {
    std::size_t begin = 0;
    std::size_t end = 0;
  };
  struct Node {
    int waiting = 0;  // predecessors not yet run
    Range successors;
    Range reads;
    std::int64_t cost = 0;  // bytes alive after the op minus before it
    bool is_source = false;
    bool done = false;
  };
  struct Readers {
    int pending = 0;
    bool is_output = false;  // stays alive
    /// The sum of the indices of those pending: the index of the last one.
    std::int64_t sum = 0;
  };

  /// Smallest first. Sources come when nothing else can run, in creation order: the cheapest of
  /// them first would be those of the same size of all phases before any phase has all of its own.
  using Rank = std::tuple<bool, std::int64_t, int>;

  Rank rank(int index) {
    const Node& op = node(index);
    return {op.is_source, op.is_source ? 0 : op.cost, index};
  }

  template <class T>
  static std::span<const T> part(const std::vector<T>& list, const Range& range) {
    return std::span(list).subspan(range.begin, range.end - range.begin);
  }

  Node& node(int index) { return ops_[static_cast<std::size_t>(index)]; }
  Op* op_at(int index) const { return graph_.ops()[static_cast<std::size_t>(index)]; }

  /// For counting bytes, a view lives in the storage of what it views.
  void join_views() {
    for (const Op* op : graph_.ops()) {
      if (!op->def().view) continue;
      for (Tensor* output : op->outputs()) aliases_.join(output, op->input(0));
    }
  }

  void list_successors(const OpPredecessors& predecessors) {
    for (std::size_t i = 0; i < ops_.size(); ++i) {
      ops_[i].waiting = static_cast<int>(predecessors.of(i).size());
      for (int p : predecessors.of(i)) ++node(p).successors.end;
    }
    std::size_t begin = 0;
    for (Node& op : ops_) {
      const std::size_t count = op.successors.end;
      op.successors = {begin, begin};
      begin += count;
    }
    successors_.resize(begin);
    for (std::size_t i = 0; i < ops_.size(); ++i) {
      for (int p : predecessors.of(i)) successors_[node(p).successors.end++] = static_cast<int>(i);
    }
  }

  /// Storages made by ops of this graph count; inputs, variables and constants stay anyway.
  bool counts(const Tensor* root) const { return root->producer() != nullptr; }

  void count_readers() {
    for (std::size_t i = 0; i < ops_.size(); ++i) {
      const Op& op = *graph_.ops()[i];
      ops_[i].reads = list_read_roots(op);
      for (const Tensor* root : part(reads_, ops_[i].reads)) {
        Readers& readers = readers_[root];
        if (readers.pending++ == 0) read_.push_back(root);
        readers.sum += static_cast<std::int64_t>(i);
      }
      for (const Tensor* output : op.outputs()) {
        if (aliases_.root(output) == output) ops_[i].cost += bytes_of(output);
      }
      ops_[i].is_source = ops_[i].cost >= kLeastSource && makes_from_nothing(op);
    }
    for (const Tensor* output : graph_.outputs()) readers_[aliases_.root(output)].is_output = true;
    for (const Tensor* root : read_) {
      const Readers& readers = readers_.at(root);
      if (readers.pending == 1 && !readers.is_output) last_reader(readers).cost -= bytes_of(root);
    }
  }

  /// Loads, fills, draws: nothing is freed when they run.
  static bool makes_from_nothing(const Op& op) {
    return std::all_of(op.inputs().begin(), op.inputs().end(), [](const Tensor* input) {
      return input == nullptr || num_elements(input->shape()) <= 1;
    });
  }

  static std::int64_t bytes_of(const Tensor* tensor) {
    return static_cast<std::int64_t>(tensor->info.bytes());
  }

  Range list_read_roots(const Op& op) {
    const std::size_t begin = reads_.size();
    for (const Tensor* input : op.inputs()) {
      if (input == nullptr) continue;
      const Tensor* root = aliases_.root(input);
      if (counts(root) && std::exchange(last_reader_[root], &op) != &op) reads_.push_back(root);
    }
    return {begin, reads_.size()};
  }

  /// Of a storage with one pending reader.
  Node& last_reader(const Readers& readers) { return node(static_cast<int>(readers.sum)); }

  /// The op that is now the last reader of a storage frees it.
  void finish(int index) {
    node(index).done = true;
    for (const Tensor* root : part(reads_, node(index).reads)) {
      Readers& readers = readers_[root];
      readers.sum -= index;
      if (--readers.pending != 1 || readers.is_output) continue;
      Node& last = last_reader(readers);
      last.cost -= bytes_of(root);
      if (last.waiting == 0) ready_.push(rank(static_cast<int>(readers.sum)));
    }
  }

  Graph& graph_;
  AliasClasses aliases_;
  std::vector<Node> ops_;
  std::vector<int> successors_;
  std::vector<const Tensor*> reads_;  // roots
  TensorMap<Readers> readers_;
  std::vector<const Tensor*> read_;   // those with readers
  TensorMap<const Op*> last_reader_;  // that list_read_roots met
  /// What becomes cheaper while it is ready comes again; costs never rise.
  std::priority_queue<Rank, std::vector<Rank>, std::greater<>> ready_;
};

}  // namespace

void schedule_for_memory(Ir& ir) {
  EffectNames effects;
  for (Graph* graph : ir.graphs()) {
    if (!is_on_several_devices(*graph)) MemoryScheduler(*graph, effects).run();
  }
}

}  // namespace pando
