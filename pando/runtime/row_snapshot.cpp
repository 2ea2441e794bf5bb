#include "pando/runtime/row_snapshot.hpp"

#include <algorithm>
#include <cstring>

#include "pando/base/error.hpp"
#include "pando/runtime/remote_memory.hpp"

namespace pando {

RowSnapshot::RowSnapshot(RemoteMemory& memory, std::shared_ptr<SnapshotRoom> room)
    : memory_(&memory),
      row_bytes_(memory.slot_bytes()),
      room_(std::move(room)),
      states_(static_cast<std::size_t>(memory.slots()), State::Pending) {}

/// What stores wait for, then copies, whose room others need, then the rest in order.
std::int64_t RowSnapshot::choose() {
  for (const std::int64_t slot : wanted_) {
    if (state(slot) == State::Pending) return slot;
  }
  if (!copies_.empty()) return copies_.begin()->first;
  const auto size = static_cast<std::int64_t>(states_.size());
  while (first_ < size && state(first_) != State::Pending) ++first_;
  return first_ < size ? first_ : -1;
}

bool RowSnapshot::is_reading() const {
  return std::find(states_.begin(), states_.end(), State::Reading) != states_.end();
}

/// The row stays as it is meanwhile: its stores wait.
void RowSnapshot::read(std::int64_t slot, std::byte* to, Lock& lock) {
  state(slot) = State::Reading;
  lock.unlock();
  try {
    memory_->load(slot, to, row_bytes_);
  } catch (...) {
    lock.lock();
    state(slot) = State::Pending;
    changed_.notify_all();
    throw;
  }
  lock.lock();
}

std::int64_t RowSnapshot::next(std::byte* to) {
  Lock lock(mutex_);
  std::int64_t slot = -1;
  // The last rows may be on their way to copies, made by stores.
  changed_.wait(lock, [&] {
    return cancelled_ || memory_ == nullptr || (slot = choose()) >= 0 || !is_reading();
  });
  if (error_ != nullptr) std::rethrow_exception(error_);
  if (cancelled_) return -1;
  if (memory_ == nullptr) {
    throw RuntimeFault("the session was detached while its state was being saved");
  }
  if (slot < 0) return -1;
  const auto copy = copies_.find(slot);
  if (copy != copies_.end()) {
    std::memcpy(to, copy->second.data(), row_bytes_);
    give_room_back();
    copies_.erase(copy);
  } else {
    read(slot, to, lock);
  }
  state(slot) = State::Taken;
  changed_.notify_all();
  return slot;
}

bool RowSnapshot::is_wanted() const {
  const Lock lock(mutex_);
  return !wanted_.empty();
}

bool RowSnapshot::has_copies() const {
  const Lock lock(mutex_);
  return !copies_.empty();
}

bool RowSnapshot::take_room() {
  const auto bytes = static_cast<std::int64_t>(row_bytes_);
  if (room_->used.fetch_add(bytes) + bytes <= room_->limit) return true;
  room_->used -= bytes;
  return false;
}

void RowSnapshot::give_room_back() { room_->used -= static_cast<std::int64_t>(row_bytes_); }

void RowSnapshot::cancel() {
  const Lock lock(mutex_);
  cancelled_ = true;
  for (std::size_t i = 0; i < copies_.size(); ++i) give_room_back();
  copies_.clear();
  changed_.notify_all();
}

void RowSnapshot::wait_for_reader(std::int64_t slot, bool has_room, const StopCheck& check,
                                  Lock& lock) {
  wanted_.push_back(slot);
  try {
    wait_until_or_stop(lock, changed_, check, [&] {
      return is_safe(slot) || (has_room && state(slot) == State::Pending);
    });
  } catch (...) {
    std::erase(wanted_, slot);
    if (has_room) give_room_back();
    throw;
  }
  std::erase(wanted_, slot);
}

void RowSnapshot::before_store(std::int64_t slot, const StopCheck& check) {
  Lock lock(mutex_);
  const bool has_room = !is_safe(slot) && take_room();
  wait_for_reader(slot, has_room, check, lock);
  if (is_safe(slot)) {
    if (has_room) give_room_back();
    return;
  }
  std::vector<std::byte> copy(row_bytes_);
  try {
    read(slot, copy.data(), lock);
  } catch (...) {
    // The reader cannot have the row any more; what replaces it may be stored.
    give_room_back();
    error_ = std::current_exception();
    cancelled_ = true;
    changed_.notify_all();
    return;
  }
  state(slot) = State::Copied;
  if (cancelled_) {
    give_room_back();
  } else {
    copies_.emplace(slot, std::move(copy));
  }
  changed_.notify_all();
}

/// Waits for a read under way.
void RowSnapshot::lose_memory() {
  Lock lock(mutex_);
  changed_.wait(lock, [&] { return !is_reading(); });
  memory_ = nullptr;
  changed_.notify_all();
}

}  // namespace pando
