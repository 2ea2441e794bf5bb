// The tensors of a graph by id.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <functional>
#include <string_view>
#include <utility>
#include <vector>

#include "pando/ir/numbered_map.hpp"
#include "pando/ir/tensor.hpp"

namespace pando {

/// Takes some 30 bytes a tensor and no allocation for each: the tensors keep their ids themselves.
class TensorTable {
 public:
  std::size_t size() const { return size_; }
  void reserve(std::size_t count) {
    if (!is_crowded(count)) return;
    grow(std::bit_ceil(std::max(kLeastSlots, count + count / 3 + 1)));
  }

  /// nullptr when absent.
  Tensor* find(std::string_view id) const {
    return slots_.empty() ? nullptr : slots_[slot_of(id, hash(id))].tensor;
  }
  bool contains(std::string_view id) const { return find(id) != nullptr; }

  /// false: a tensor with its id is there.
  bool insert(Tensor& tensor) {
    reserve(size_ + 1);
    const std::size_t hashed = hash(tensor.id());
    Slot& slot = slots_[slot_of(tensor.id(), hashed)];
    if (slot.tensor != nullptr) return false;
    slot = {&tensor, hashed};
    ++size_;
    return true;
  }

  /// The copies of the tensors of `other`, which have the ids of those; this table is empty.
  void insert_copies(const TensorTable& other, const TensorMap<Tensor*>& copies) {
    slots_ = other.slots_;
    for (Slot& slot : slots_) {
      if (slot.tensor == nullptr) continue;
      slot.tensor = copies.at(slot.tensor);
      if (slot.tensor != nullptr) ++size_;
    }
    // Those behind a hole would not be found.
    if (size_ < other.size_) grow(slots_.size());
  }

  /// Nothing happens when it is absent.
  void erase(std::string_view id) {
    if (!contains(id)) return;
    std::size_t hole = slot_of(id, hash(id));
    // Those behind it that would not be found across the hole move into it.
    for (std::size_t i = next(hole); slots_[i].tensor != nullptr; i = next(i)) {
      if (distance(first_slot(slots_[i].hash), i) < distance(hole, i)) continue;
      slots_[hole] = slots_[i];
      hole = i;
    }
    slots_[hole] = {};
    --size_;
  }

  std::vector<Tensor*> all() const {
    std::vector<Tensor*> tensors;
    tensors.reserve(size_);
    for (const Slot& slot : slots_) {
      if (slot.tensor != nullptr) tensors.push_back(slot.tensor);
    }
    return tensors;
  }

 private:
  struct Slot {
    Tensor* tensor = nullptr;
    std::size_t hash = 0;
  };
  static constexpr std::size_t kLeastSlots = 8;

  static std::size_t hash(std::string_view id) { return std::hash<std::string_view>()(id); }
  bool is_crowded(std::size_t count) const { return 4 * count > 3 * slots_.size(); }
  std::size_t first_slot(std::size_t hash) const { return hash & (slots_.size() - 1); }
  std::size_t next(std::size_t slot) const { return (slot + 1) & (slots_.size() - 1); }
  std::size_t distance(std::size_t from, std::size_t to) const {
    return (to - from) & (slots_.size() - 1);
  }

  /// Where the tensor is, or the free slot where it would be.
  std::size_t slot_of(std::string_view id, std::size_t hash) const {
    std::size_t slot = first_slot(hash);
    while (slots_[slot].tensor != nullptr &&
           (slots_[slot].hash != hash || slots_[slot].tensor->id() != id)) {
      slot = next(slot);
    }
    return slot;
  }

  void grow(std::size_t count) {
    const std::vector<Slot> before = std::exchange(slots_, std::vector<Slot>(count));
    for (const Slot& old : before) {
      if (old.tensor != nullptr) put(old);
    }
  }

  /// Takes a free slot: no tensor has the id.
  void put(const Slot& entry) {
    std::size_t slot = first_slot(entry.hash);
    while (slots_[slot].tensor != nullptr) slot = next(slot);
    slots_[slot] = entry;
  }

  std::vector<Slot> slots_;  // as many as a power of two, a quarter of them free
  std::size_t size_ = 0;
};

}  // namespace pando
