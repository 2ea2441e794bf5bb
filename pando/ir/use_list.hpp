// The uses of one tensor.
#pragma once

#include <cstddef>

#include "pando/base/forward_iterator.hpp"

namespace pando {

class Op;

/// One use of a tensor: input `index` of `op`.
struct Use {
  Op* op;
  int index;
  bool operator==(const Use&) const = default;
};

/// The inputs that one tensor is connected to, in the order in which they were connected. Every
/// input of an op brings its own link, so adding and removing take constant time and no memory.
class UseList {
 public:
  struct Link {
    Use use;
    Link* previous = nullptr;
    Link* next = nullptr;
  };

  class Iterator : public ForwardIterator<Iterator, Use, const Use&> {
   public:
    Iterator() = default;
    explicit Iterator(const Link* link) : link_(link) {}
    const Use& operator*() const { return link_->use; }
    const Use* operator->() const { return &link_->use; }
    bool operator==(const Iterator&) const = default;
    void advance() { link_ = link_->next; }

   private:
    const Link* link_ = nullptr;
  };

  UseList() = default;
  UseList(const UseList&) = delete;
  UseList& operator=(const UseList&) = delete;

  Iterator begin() const { return Iterator(first_); }
  Iterator end() const { return Iterator(); }
  bool empty() const { return first_ == nullptr; }
  std::size_t size() const { return size_; }
  const Use& front() const { return first_->use; }

  /// `link` is in no list.
  void push_back(Link& link) {
    link.previous = last_;
    link.next = nullptr;
    (last_ == nullptr ? first_ : last_->next) = &link;
    last_ = &link;
    ++size_;
  }
  /// `link` is in this list.
  void remove(Link& link) {
    (link.previous == nullptr ? first_ : link.previous->next) = link.next;
    (link.next == nullptr ? last_ : link.next->previous) = link.previous;
    --size_;
  }

 private:
  Link* first_ = nullptr;
  Link* last_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace pando
