// The ops of one graph.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory_resource>
#include <unordered_map>
#include <vector>

#include "pando/ir/op.hpp"

namespace pando {

/// Makes ops and keeps them in an order and by id. It changes nothing of their inputs and outputs.
class OpList {
 public:
  /// What is made is freed with `memory`.
  explicit OpList(std::pmr::memory_resource& memory) : made_(&memory) {}

  /// In order. After ops were inserted, erased or reordered, the first call takes time for all.
  const std::vector<Op*>& listed() const {
    if (!is_listed_.load(std::memory_order_acquire)) list();
    return listed_;
  }
  std::size_t size() const { return size_; }
  /// Ops that call graphs.
  std::size_t num_callers() const;
  /// Whether there is an op of that kind.
  bool has(OpKind kind) const;
  /// Whether `is_wanted(const OpDef&)` holds for the record of an op. A pass asks it before it
  /// looks at all ops, which in a large graph are in no cache.
  template <class Predicate>
  bool any_kind(const Predicate& is_wanted) const {
    return std::any_of(kinds_.begin(), kinds_.end(),
                       [&](const KindCount& kind) { return kind.ops > 0 && is_wanted(*kind.def); });
  }
  /// nullptr where there are no ops; so is `last`.
  Op* first() const { return first_; }
  Op* last() const { return last_; }
  /// nullptr when absent. The first call takes time for all.
  Op* find(std::int64_t id) const;
  /// Takes no time for an id above those of all ops.
  bool has(std::int64_t id) const { return id <= highest_id_ && find(id) != nullptr; }

  /// Makes room for so many ops.
  void reserve(std::size_t count);
  /// A new op that is in no order yet.
  Op& make(Graph& graph, const OpDef& def, std::int64_t id);
  /// Takes away the op that was made last, which was never inserted.
  void discard_made();
  /// Puts an op with a new id at the end.
  void append(Op& op);
  /// Puts an op with a new id at the insertion point.
  void insert(Op& op);
  /// Before `op`; nullptr: at the end again.
  void set_insertion_point(Op* op) { insertion_point_ = op; }
  /// The op, which stays readable, belongs to `owner` from now on, without being listed there.
  void move_out(Op& op, Graph& owner);
  /// `order`: a permutation of the ops.
  void reorder(std::vector<Op*> order);

 private:
  struct KindCount {
    const OpDef* def;
    std::size_t ops;
  };

  KindCount& count_of(const OpDef& def);
  /// Before `next`; nullptr: at the end.
  void link_before(Op& op, Op* next);
  void unlink(Op& op);
  void list() const;
  void index() const;
  void note_id(Op& op);

  // The order is in the links of the ops; listed_ is a copy of it while is_listed_.
  Op* first_ = nullptr;
  Op* last_ = nullptr;
  std::size_t size_ = 0;
  std::vector<KindCount> kinds_;  // those that ops ever had: few
  mutable std::vector<Op*> listed_;
  mutable std::atomic<bool> is_listed_ = true;
  Op* insertion_point_ = nullptr;
  std::pmr::list<Op> made_;       // all that ever were
  std::int64_t highest_id_ = -1;  // of all that ever were
  // Few graphs are asked for an op by its id: empty until is_indexed_.
  mutable std::unordered_map<std::int64_t, Op*> by_id_;
  mutable std::atomic<bool> is_indexed_ = false;
};

}  // namespace pando
