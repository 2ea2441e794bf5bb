// The links by which the inputs of one op are in lists of uses.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory_resource>
#include <new>

#include "pando/ir/use_list.hpp"

namespace pando {

/// One for each input, which stays where it is. They take memory of the Ir, in one piece for all
/// inputs that an op gets at once.
class InputLinks {
 public:
  /// Makes those of the first `count` inputs, if they are not there.
  void reserve(std::pmr::memory_resource& memory, Op& op, std::size_t count) {
    const std::size_t begin = last_ == nullptr ? 0 : last_->end;
    if (count <= begin) return;
    const std::size_t added = std::max(count - begin, begin);
    void* place = memory.allocate(sizeof(Block) + added * sizeof(UseList::Link), alignof(Block));
    last_ = new (place) Block{last_, begin, begin + added};
    for (std::size_t i = begin; i < last_->end; ++i) {
      new (last_->first() + (i - begin)) UseList::Link{{&op, static_cast<int>(i)}};
    }
  }

  /// Of an input that has been reserved.
  UseList::Link& operator[](std::size_t input) const {
    Block* block = last_;
    while (input < block->begin) block = block->previous;
    return block->first()[input - block->begin];
  }

 private:
  /// The links of the inputs from `begin` to `end` lie behind it.
  struct Block {
    Block* previous;
    std::size_t begin, end;
    UseList::Link* first() { return reinterpret_cast<UseList::Link*>(this + 1); }
  };
  static_assert(alignof(Block) == alignof(UseList::Link));

  Block* last_ = nullptr;
};

}  // namespace pando
