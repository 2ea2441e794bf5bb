#include "pando/ir/op_list.hpp"

#include <algorithm>
#include <mutex>

#include "pando/base/error.hpp"
#include "pando/ir/op_def.hpp"

namespace pando {
namespace {

/// Held while what was asked for first is made.
std::mutex& asking() {
  static std::mutex mutex;
  return mutex;
}

}  // namespace

Op* OpList::find(std::int64_t id) const {
  if (!is_indexed_.load(std::memory_order_acquire)) index();
  const auto it = by_id_.find(id);
  return it == by_id_.end() ? nullptr : it->second;
}

void OpList::reserve(std::size_t count) { listed_.reserve(count); }

Op& OpList::make(Graph& graph, const OpDef& def, std::int64_t id) {
  return made_.emplace_back(graph, def, id, made_.size());
}

void OpList::discard_made() { made_.pop_back(); }

void OpList::append(Op& op) {
  link_before(op, nullptr);
  note_id(op);
}

void OpList::insert(Op& op) {
  link_before(op, insertion_point_);
  note_id(op);
}

void OpList::move_out(Op& op, Graph& owner) {
  if (&op == insertion_point_) insertion_point_ = nullptr;
  unlink(op);
  if (is_indexed_.load(std::memory_order_relaxed)) by_id_.erase(op.id());
  op.graph_ = &owner;
}

void OpList::reorder(std::vector<Op*> order) {
  internal_check(order.size() == size_, "an order must name every op once");
  listed_ = std::move(order);
  Op* previous = nullptr;
  for (Op* op : listed_) {
    op->previous_ = previous;
    (previous == nullptr ? first_ : previous->next_) = op;
    previous = op;
  }
  last_ = previous;
  if (previous != nullptr) previous->next_ = nullptr;
  is_listed_.store(true, std::memory_order_relaxed);
}

std::size_t OpList::num_callers() const {
  std::size_t count = 0;
  for (const KindCount& kind : kinds_) {
    if (kind.def->num_called_graphs > 0) count += kind.ops;
  }
  return count;
}

bool OpList::has(OpKind kind) const {
  return any_kind([&](const OpDef& def) { return def.kind == kind; });
}

OpList::KindCount& OpList::count_of(const OpDef& def) {
  for (KindCount& kind : kinds_) {
    if (kind.def == &def) return kind;
  }
  return kinds_.emplace_back(KindCount{&def, 0});
}

void OpList::link_before(Op& op, Op* next) {
  op.next_ = next;
  op.previous_ = next == nullptr ? last_ : next->previous_;
  (op.previous_ == nullptr ? first_ : op.previous_->next_) = &op;
  (next == nullptr ? last_ : next->previous_) = &op;
  ++size_;
  ++count_of(op.def()).ops;
  if (next != nullptr) {
    is_listed_.store(false, std::memory_order_relaxed);
  } else if (is_listed_.load(std::memory_order_relaxed)) {
    listed_.push_back(&op);
  }
}

void OpList::unlink(Op& op) {
  if (&op == last_ && is_listed_.load(std::memory_order_relaxed)) {
    listed_.pop_back();
  } else {
    is_listed_.store(false, std::memory_order_relaxed);
  }
  (op.previous_ == nullptr ? first_ : op.previous_->next_) = op.next_;
  (op.next_ == nullptr ? last_ : op.next_->previous_) = op.previous_;
  op.previous_ = op.next_ = nullptr;
  --size_;
  --count_of(op.def()).ops;
}

void OpList::note_id(Op& op) {
  highest_id_ = std::max(highest_id_, op.id());
  if (is_indexed_.load(std::memory_order_relaxed)) by_id_.emplace(op.id(), &op);
}

/// Several threads may ask for the ops of a graph that none of them changes.
void OpList::list() const {
  const std::lock_guard lock(asking());
  if (is_listed_.load(std::memory_order_relaxed)) return;
  listed_.clear();
  listed_.reserve(size_);
  for (Op* op = first_; op != nullptr; op = op->next()) listed_.push_back(op);
  is_listed_.store(true, std::memory_order_release);
}

void OpList::index() const {
  const std::lock_guard lock(asking());
  if (is_indexed_.load(std::memory_order_relaxed)) return;
  for (Op* op = first_; op != nullptr; op = op->next()) by_id_.emplace(op->id(), op);
  is_indexed_.store(true, std::memory_order_release);
}

}  // namespace pando
