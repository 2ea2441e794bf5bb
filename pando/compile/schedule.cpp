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

/// How many ops ahead of what frees memory that counts.
constexpr int kFarthestCredit = 4;

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
    for (std::size_t i = ops_.size(); i-- > 0;) {
      if (ops_[i].waiting == 1) credit_last_predecessor(static_cast<int>(i));
    }
    for (std::size_t i = 0; i < ops_.size(); ++i) {
      if (ops_[i].waiting == 0) push(static_cast<int>(i));
    }
    std::vector<Op*> order;
    order.reserve(ops_.size());
    while (order.size() < ops_.size()) {
      const int chosen = take_next();
      finish(chosen);
      order.push_back(op_at(chosen));
      for (int next : part(successors_, node(chosen).successors)) {
        Node& successor = node(next);
        successor.waiting_sum -= chosen;
        if (--successor.waiting == 0) push(next);
        if (successor.waiting == 1) credit_last_predecessor(next);
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
    /// The sum of their indices: the index of the last one.
    std::int64_t waiting_sum = 0;
    Range successors;
    Range reads;
    std::int64_t cost = 0;    // bytes alive after the op minus before it
    std::int64_t credit = 0;  // what ops free that then can run at once: at most 0
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

  /// What may be run; an op that became cheaper while it was ready is there several times.
  using Queue = std::priority_queue<Rank, std::vector<Rank>, std::greater<>>;

  void push(int index) {
    const Node& op = node(index);
    by_cost_.emplace(op.is_source, op.is_source ? 0 : op.cost, index);
    by_credit_.emplace(op.is_source, op.is_source ? 0 : op.cost + op.credit, index);
  }

  int first_of(Queue& queue) {
    while (node(std::get<2>(queue.top())).done) queue.pop();
    return std::get<2>(queue.top());
  }

  /// The op that frees most with those that only wait for it. Where that one would make more alive
  /// than ever before, the cheapest op alone, if it makes alive not half as much.
  int take_next() {
    const int credited = first_of(by_credit_), cheapest = first_of(by_cost_);
    const std::int64_t cost = node(credited).cost;
    const bool is_credited = alive_ + cost <= peak_ || 2 * node(cheapest).cost > cost;
    const int chosen = is_credited ? credited : cheapest;
    alive_ += node(chosen).cost;
    peak_ = std::max(peak_, alive_);
    return chosen;
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
      has_views_ = true;
      for (Tensor* output : op->outputs()) aliases_.join(output, op->input(0));
    }
  }

  /// By op, what must run before it and besides what `dependencies` says: an op that writes to a
  /// storage waits for the earlier ones that read it through views, which would become copies.
  std::vector<std::vector<int>> view_readers(const OpPredecessors& predecessors) const {
    std::vector<std::vector<int>> found(ops_.size());
    if (!has_views_) return found;
    TensorMap<std::vector<int>> readers;
    for (std::size_t i = 0; i < ops_.size(); ++i) {
      const Op& op = *graph_.ops()[i];
      const std::span<const int> known = predecessors.of(i);
      for (const int index : op.modified_inputs()) {
        if (op.input(index) == nullptr) continue;
        for (const int reader : std::exchange(readers[aliases_.root(op.input(index))], {})) {
          const bool is_known = std::find(known.begin(), known.end(), reader) != known.end();
          if (!is_known && reader != static_cast<int>(i)) found[i].push_back(reader);
        }
      }
      for (const Tensor* input : op.inputs()) {
        if (input == nullptr || input->producer() == nullptr) continue;
        if (input->producer()->def().view) {
          readers[aliases_.root(input)].push_back(static_cast<int>(i));
        }
      }
    }
    for (std::vector<int>& ops : found) {
      std::sort(ops.begin(), ops.end());
      ops.erase(std::unique(ops.begin(), ops.end()), ops.end());
    }
    return found;
  }

  void list_successors(const OpPredecessors& predecessors) {
    const std::vector<std::vector<int>> readers = view_readers(predecessors);
    const auto for_predecessors = [&](std::size_t i, const auto& act) {
      for (const int p : predecessors.of(i)) act(p);
      for (const int p : readers[i]) act(p);
    };
    for (std::size_t i = 0; i < ops_.size(); ++i) {
      for_predecessors(i, [&](int p) {
        ++ops_[i].waiting;
        ops_[i].waiting_sum += p;
        ++node(p).successors.end;
      });
    }
    std::size_t begin = 0;
    for (Node& op : ops_) {
      const std::size_t count = op.successors.end;
      op.successors = {begin, begin};
      begin += count;
    }
    successors_.resize(begin);
    for (std::size_t i = 0; i < ops_.size(); ++i) {
      for_predecessors(i,
                       [&](int p) { successors_[node(p).successors.end++] = static_cast<int>(i); });
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

  /// What an op frees that waits for one other op counts for that one, too.
  void credit_last_predecessor(int waiting) {
    const Node& op = node(waiting);
    add_credit(static_cast<int>(op.waiting_sum), std::min<std::int64_t>(op.cost + op.credit, 0));
  }

  void add_credit(int index, std::int64_t change) {
    for (int depth = 0; depth < kFarthestCredit && change < 0; ++depth) {
      node(index).credit += change;
      change = note_cheaper(index, change);
      index = static_cast<int>(node(index).waiting_sum);
    }
  }

  /// An op became cheaper by `change`: what that is for the only op that it waits for.
  std::int64_t note_cheaper(int index, std::int64_t change) {
    const Node& op = node(index);
    if (op.waiting == 0 && !op.done) push(index);
    if (op.waiting != 1) return 0;
    const std::int64_t now = op.cost + op.credit;
    return std::min<std::int64_t>(now, 0) - std::min<std::int64_t>(now - change, 0);
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
      const auto last = static_cast<int>(readers.sum);
      node(last).cost -= bytes_of(root);
      const std::int64_t change = note_cheaper(last, -bytes_of(root));
      add_credit(static_cast<int>(node(last).waiting_sum), change);
    }
  }

  Graph& graph_;
  AliasClasses aliases_;
  bool has_views_ = false;
  std::vector<Node> ops_;
  std::vector<int> successors_;
  std::vector<const Tensor*> reads_;  // roots
  TensorMap<Readers> readers_;
  std::vector<const Tensor*> read_;   // those with readers
  TensorMap<const Op*> last_reader_;  // that list_read_roots met
  Queue by_cost_, by_credit_;
  std::int64_t alive_ = 0, peak_ = 0;  // bytes
};

}  // namespace

void schedule_for_memory(Ir& ir) {
  EffectNames effects;
  for (Graph* graph : ir.graphs()) {
    if (!is_on_several_devices(*graph)) MemoryScheduler(*graph, effects).run();
  }
}

}  // namespace pando
