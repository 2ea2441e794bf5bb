#include "pando/runtime/transfer_queue.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "pando/base/error.hpp"

namespace pando {

TransferQueue::TransferQueue(std::string name, bool host_to_device, std::int64_t part_bytes,
                             std::int64_t parts, std::int64_t room)
    : name_(std::move(name)),
      host_to_device_(host_to_device),
      part_bytes_(part_bytes),
      room_(room) {
  if (room < 1 || parts < 1 || part_bytes < 0) {
    throw ValueError(str_cat("stream '", name_,
                             "': wanted room for 1 transfer or more, of 1 part "
                             "or more; given room for ",
                             room, " of ", parts, " parts of ", part_bytes, " bytes"));
  }
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  if (part_bytes > kMost / parts || part_bytes * parts > kMost / room) {
    throw ValueError(str_cat("stream '", name_, "': room for ", room,
                             " transfers is more than any "
                             "memory"));
  }
  memory_.resize(static_cast<std::size_t>(part_bytes * parts * room));
  positions_.resize(static_cast<std::size_t>(parts));
}

std::int64_t TransferQueue::slowest() const {
  return *std::min_element(positions_.begin(), positions_.end());
}

std::int64_t TransferQueue::fastest() const {
  return *std::max_element(positions_.begin(), positions_.end());
}

bool TransferQueue::put(const std::byte* transfer, const StopCheck& check) {
  std::unique_lock lock(mutex_);
  wait_until_or_stop(lock, changed_, check,
                     [&] { return is_over() || host_position_ < slowest() + room_; });
  if (is_over()) return false;
  std::byte* const to = slot(host_position_);
  lock.unlock();
  if (part_bytes_ > 0) std::memcpy(to, transfer, static_cast<std::size_t>(transfer_bytes()));
  lock.lock();
  ++host_position_;
  changed_.notify_all();
  return true;
}

bool TransferQueue::take(std::byte* transfer, const StopCheck& check) {
  std::unique_lock lock(mutex_);
  wait_until_or_stop(lock, changed_, check,
                     [&] { return is_over() || host_position_ < slowest(); });
  if (error_ != nullptr || host_position_ >= slowest()) return false;
  const std::byte* const from = slot(host_position_);
  lock.unlock();
  if (part_bytes_ > 0) std::memcpy(transfer, from, static_cast<std::size_t>(transfer_bytes()));
  lock.lock();
  ++host_position_;
  changed_.notify_all();
  return true;
}

std::int64_t TransferQueue::transfers() {
  const std::lock_guard lock(mutex_);
  return slowest();
}

void TransferQueue::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  changed_.notify_all();
}

void TransferQueue::fail(std::exception_ptr error) {
  const std::lock_guard lock(mutex_);
  if (error_ == nullptr) error_ = std::move(error);
  changed_.notify_all();
}

void TransferQueue::begin_run() {
  const std::lock_guard lock(mutex_);
  if (in_run_) throw ValueError(str_cat("stream '", name_, "': another run has its queue"));
  in_run_ = true;
  const std::int64_t start = host_to_device_ ? fastest() : slowest();
  std::fill(positions_.begin(), positions_.end(), start);
  changed_.notify_all();
}

void TransferQueue::end_run() {
  const std::lock_guard lock(mutex_);
  in_run_ = false;
}

std::byte* TransferQueue::begin(std::int64_t part, const StopCheck& check) {
  std::unique_lock lock(mutex_);
  const std::int64_t position = positions_[static_cast<std::size_t>(part)];
  const auto ready = [&] {
    return host_to_device_ ? position < host_position_ : position < host_position_ + room_;
  };
  wait_until_or_stop(lock, changed_, check, [&] { return is_over() || ready(); });
  if (error_ != nullptr) std::rethrow_exception(error_);
  if (host_to_device_ && !ready()) {
    throw RuntimeFault(str_cat("stream '", name_, "' ended after ", host_position_,
                               " transfers, and the program loads another one: give it more, or "
                               "run the program less often"));
  }
  if (!host_to_device_ && closed_) {
    throw RuntimeFault(str_cat("stream '", name_, "' was closed after ", host_position_,
                               " transfers, and the program stores another one"));
  }
  return slot(position) + part * part_bytes_;
}

void TransferQueue::end(std::int64_t part) {
  const std::lock_guard lock(mutex_);
  ++positions_[static_cast<std::size_t>(part)];
  changed_.notify_all();
}

}  // namespace pando
