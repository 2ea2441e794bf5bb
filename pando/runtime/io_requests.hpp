// The transfers that an IoQueue has to do or to remember, in the order of the calls.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>

#include "pando/runtime/remote_memory.hpp"
#include "pando/runtime/run_profile.hpp"
#include "pando/runtime/staging_pool.hpp"
#include "pando/runtime/waiting.hpp"

namespace pando {

struct IoRequest {
  using Ticket = std::uint64_t;
  enum class State : std::uint8_t { Waiting, Running, Done, Failed };

  Ticket ticket = 0;
  RemoteMemory* memory = nullptr;
  std::int64_t slot = 0;
  std::size_t bytes = 0;
  std::byte* to = nullptr;  // of a load
  /// The value of a store; of a load, that of the store that it follows, if that is not written.
  std::shared_ptr<StagingCopy> copy;
  std::size_t copied_bytes = 0;  // of the row, in the copy
  State state = State::Waiting;
  bool wanted = false;       // the program waits for it
  std::exception_ptr error;  // of a load
  TransferTag tag;

  bool is_load() const { return to != nullptr; }
  bool is_copy() const { return is_load() && copy != nullptr; }
  bool is_open() const { return state == State::Waiting || state == State::Running; }
  bool is_of_row(const RemoteMemory& row_memory, std::int64_t row) const {
    return memory == &row_memory && slot == row;
  }
  bool conflicts_with(const IoRequest& other) const {
    return is_of_row(*other.memory, other.slot) && !(is_load() && other.is_load()) && !is_copy() &&
           !other.is_copy();
  }
  /// The transfer itself.
  void move(const StopCheck& check) const;
};

/// Used under the caller's lock.
class IoRequests {
 public:
  std::size_t size() const { return requests_.size(); }
  /// Gives it the next ticket.
  IoRequest::Ticket add(std::unique_ptr<IoRequest> request);
  IoRequest& of_ticket(IoRequest::Ticket ticket);
  /// What a thread is to do next: see IoQueue. nullptr: nothing can be done now.
  IoRequest* next(bool stores_first);

  /// The latest store of the row that is not written, or nullptr.
  const IoRequest* latest_store(const RemoteMemory& memory, std::int64_t slot) const;
  std::ptrdiff_t num_stores() const;
  bool all_done() const;
  bool is_row_at_rest(const RemoteMemory& memory, std::int64_t slot) const;

  void retry_failed();
  void forget(const IoRequest& request);
  void forget_done();
  /// The stores that failed for a row that `store` has written since; `release` is called for each.
  template <class Release>
  void forget_replaced(const IoRequest& store, Release release) {
    std::erase_if(requests_, [&](const std::unique_ptr<IoRequest>& other) {
      if (other->state != IoRequest::State::Failed || !other->conflicts_with(store)) return false;
      release(*other);
      return true;
    });
  }

 private:
  template <class Condition>
  IoRequest* first_free(Condition condition);

  std::deque<std::unique_ptr<IoRequest>> requests_;
  IoRequest::Ticket next_ticket_ = 1;
};

}  // namespace pando
