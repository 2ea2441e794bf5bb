// A value for every op, or every tensor, of one graph.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "pando/ir/op.hpp"
#include "pando/ir/tensor.hpp"

namespace pando {

/// As quick as a vector: ops and tensors (`Item`) are numbered in their graph. Every one has the
/// value `absent` until it is given another one. T must not be bool.
template <class Item, class T>
class NumberedMap {
 public:
  explicit NumberedMap(T absent = T()) : absent_(std::move(absent)) {}

  const T& at(const Item* item) const {
    return item->number() < values_.size() ? values_[item->number()] : absent_;
  }
  T& operator[](const Item* item) {
    const std::size_t number = item->number();
    if (number >= values_.size()) values_.resize(2 * number + 64, absent_);
    return values_[number];
  }

 private:
  T absent_;
  std::vector<T> values_;
};

/// Some ops, or some tensors, of one graph.
template <class Item>
class NumberedSet {
 public:
  /// Whether `item` is new.
  bool insert(const Item* item) { return !std::exchange(members_[item], char{1}); }
  bool contains(const Item* item) const { return members_.at(item) != 0; }

 private:
  NumberedMap<Item, char> members_{0};
};

template <class T>
using OpMap = NumberedMap<Op, T>;
using OpSet = NumberedSet<Op>;
template <class T>
using TensorMap = NumberedMap<Tensor, T>;
using TensorSet = NumberedSet<Tensor>;

}  // namespace pando
