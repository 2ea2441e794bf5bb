// A value for every tensor of one graph.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "pando/ir/tensor.hpp"

namespace pando {

/// As quick as a vector: tensors are numbered in their graph. Every tensor has the value `absent`
/// until it is given another one. T must not be bool.
template <class T>
class TensorMap {
 public:
  explicit TensorMap(T absent = T()) : absent_(std::move(absent)) {}

  const T& at(const Tensor* tensor) const {
    return tensor->number() < values_.size() ? values_[tensor->number()] : absent_;
  }
  T& operator[](const Tensor* tensor) {
    const std::size_t number = tensor->number();
    if (number >= values_.size()) values_.resize(2 * number + 64, absent_);
    return values_[number];
  }

 private:
  T absent_;
  std::vector<T> values_;
};

/// Some tensors of one graph.
class TensorSet {
 public:
  /// Whether `tensor` is new.
  bool insert(const Tensor* tensor) { return !std::exchange(members_[tensor], char{1}); }
  bool contains(const Tensor* tensor) const { return members_.at(tensor) != 0; }

 private:
  TensorMap<char> members_{0};
};

}  // namespace pando
