#include "pando/ir/op_list.hpp"

#include <mutex>

#include "pando/base/error.hpp"

namespace pando {

Op* OpList::find(std::int64_t id) const {
  const auto it = by_id_.find(id);
  return it == by_id_.end() ? nullptr : it->second;
}

void OpList::reserve(std::size_t count) {
  by_id_.reserve(count);
  listed_.reserve(count);
}

Op& OpList::make(Graph& graph, const OpDef& def, std::int64_t id) {
  return made_.emplace_back(graph, def, id);
}

void OpList::discard_made() { made_.pop_back(); }

bool OpList::append(Op& op) {
  if (!by_id_.emplace(op.id(), &op).second) return false;
  link_before(op, nullptr);
  return true;
}

void OpList::insert(Op& op) {
  link_before(op, insertion_point_);
  by_id_.emplace(op.id(), &op);
}

void OpList::move_out(Op& op, Graph& owner) {
  if (&op == insertion_point_) insertion_point_ = nullptr;
  unlink(op);
  by_id_.erase(op.id());
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

void OpList::link_before(Op& op, Op* next) {
  op.next_ = next;
  op.previous_ = next == nullptr ? last_ : next->previous_;
  (op.previous_ == nullptr ? first_ : op.previous_->next_) = &op;
  (next == nullptr ? last_ : next->previous_) = &op;
  ++size_;
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
}

/// Several threads may ask for the ops of a graph that none of them changes.
void OpList::list() const {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  if (is_listed_.load(std::memory_order_relaxed)) return;
  listed_.clear();
  listed_.reserve(size_);
  for (Op* op = first_; op != nullptr; op = op->next()) listed_.push_back(op);
  is_listed_.store(true, std::memory_order_release);
}

}  // namespace pando
