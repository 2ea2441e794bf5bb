// The rows of a remote memory as they were at one moment, read while the program goes on.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "pando/runtime/waiting.hpp"

namespace pando {

class RemoteMemory;

/// What the copies of all rows of one snapshot may take.
struct SnapshotRoom {
  std::int64_t limit = 0;
  std::atomic<std::int64_t> used = 0;
};

/// A row that is about to be stored is first copied, unless the reader has had it already. When the
/// copies would take more than their room, the store waits until the reader has taken the row. So a
/// reader must read all rows, or cancel, and should first read what is wanted.
class RowSnapshot {
 public:
  RowSnapshot(RemoteMemory& memory, std::shared_ptr<SnapshotRoom> room);

  /// Reads one more row, in an order of its own; waits for those that stores are copying. -1: none
  /// is left. Any thread. Throws RuntimeFault:
  /// the row cannot be read, or the memory is gone.
  std::int64_t next(std::byte* to);
  /// Whether a store waits for the reader, and whether a copy does.
  bool is_wanted() const;
  bool has_copies() const;
  /// Stores go on at once; no row is left.
  void cancel();

  /// The memory is about to store the row. When it cannot be read, that is the reader's fault to
  /// have. `check` ends the wait for the reader: then the row must not be stored.
  void before_store(std::int64_t slot, const StopCheck& check);
  /// The memory ends.
  void lose_memory();

 private:
  enum class State : std::uint8_t { Pending, Reading, Copied, Taken };
  using Lock = std::unique_lock<std::mutex>;

  State& state(std::int64_t slot) { return states_[static_cast<std::size_t>(slot)]; }
  std::int64_t choose();
  bool is_reading() const;
  void read(std::int64_t slot, std::byte* to, Lock& lock);
  void wait_for_reader(std::int64_t slot, bool has_room, const StopCheck& check, Lock& lock);
  /// Whether the row may be stored.
  bool is_safe(std::int64_t slot) { return cancelled_ || state(slot) >= State::Copied; }
  bool take_room();
  void give_room_back();

  RemoteMemory* memory_;
  std::size_t row_bytes_;
  std::shared_ptr<SnapshotRoom> room_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<State> states_;
  std::map<std::int64_t, std::vector<std::byte>> copies_;  // by slot
  std::vector<std::int64_t> wanted_;                       // what stores wait for
  std::int64_t first_ = 0;  // every row before it has been taken, or is being read
  bool cancelled_ = false;
  std::exception_ptr error_;
};

}  // namespace pando
