// Some inputs of one op.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <vector>

#include "pando/base/error.hpp"
#include "pando/base/forward_iterator.hpp"

namespace pando {

/// A set of input indices; needs no memory of its own while they are below 64. Iterates upwards.
class InputSet {
 public:
  class Iterator : public ForwardIterator<Iterator, int, int> {
   public:
    Iterator() = default;
    Iterator(const InputSet& set, int index) : set_(&set), index_(set.next(index)) {}
    int operator*() const { return index_; }
    bool operator==(const Iterator&) const = default;
    void advance() { index_ = set_->next(index_ + 1); }

   private:
    const InputSet* set_ = nullptr;
    int index_ = 0;
  };

  InputSet() = default;
  InputSet(std::initializer_list<int> indices) {
    for (int index : indices) insert(index);
  }

  void insert(int index) {
    internal_check(index >= 0, "an input index must not be negative");
    if (index < kWordBits) {
      first_ |= bit(index);
      return;
    }
    const std::size_t word = word_of(index) - 1;
    if (word >= more_.size()) more_.resize(word + 1);
    more_[word] |= bit(index);
  }
  bool contains(int index) const {
    return index >= 0 && index < end_index() && (word(word_of(index)) & bit(index)) != 0;
  }
  bool empty() const { return next(0) == end_index(); }
  Iterator begin() const { return {*this, 0}; }
  Iterator end() const { return {*this, end_index()}; }
  bool operator==(const InputSet&) const = default;

 private:
  static constexpr int kWordBits = 64;

  static std::uint64_t bit(int index) { return std::uint64_t{1} << (index % kWordBits); }
  static std::size_t word_of(int index) { return static_cast<std::size_t>(index / kWordBits); }
  std::uint64_t word(std::size_t number) const { return number == 0 ? first_ : more_[number - 1]; }
  int end_index() const { return (static_cast<int>(more_.size()) + 1) * kWordBits; }

  /// The first member from `index` on, or end_index().
  int next(int index) const {
    while (index < end_index()) {
      const std::uint64_t rest = word(word_of(index)) >> (index % kWordBits);
      if (rest != 0) return index + std::countr_zero(rest);
      index = (index / kWordBits + 1) * kWordBits;
    }
    return end_index();
  }

  std::uint64_t first_ = 0;
  std::vector<std::uint64_t> more_;  // words of the indices from 64 on; the last one is not 0
};

}  // namespace pando
