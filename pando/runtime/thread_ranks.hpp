// Ranks that are threads of one process: who has failed or ended, and how one waits for another.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace pando {

/// Work that a rank has under way on a communicator and may go on with while it waits elsewhere.
class PendingWork {
 public:
  virtual ~PendingWork() = default;
  /// Whether `advance` has something to do. Called also with the lock of ThreadRanks held.
  virtual bool is_ready() const = 0;
  virtual void advance() = 0;
};

/// What the communicators of one rank share.
struct ThreadRank {
  int rank = 0;
  std::function<bool()> should_stop;  // may be empty
  std::vector<PendingWork*> pending;
};

/// What a rank waits for: that `counter` reaches `wanted`.
struct Awaited {
  const std::atomic<std::uint64_t>* counter = nullptr;
  std::uint64_t wanted = 0;
  int other = 0;          // the rank that makes it so
  std::string_view what;  // for errors
  /// Whether the other rank cannot make it so while it waits itself.
  bool needs_call = true;
};

/// The state that all ranks of a world share.
class ThreadRanks {
 public:
  ThreadRanks(int size, double timeout_seconds);

  void begin_run();
  void end_run(int rank);
  void fail(int rank, const std::string& message);
  /// Throws ReplicaStopped when a rank has failed.
  void check() const {
    if (failed_.load(std::memory_order_acquire)) throw_failure();
  }
  /// To be called after any change of a counter that ranks wait for, which must be a sequentially
  /// consistent store.
  void notify();
  /// Returns when it is so; else throws as a Communicator does.
  void wait(const Awaited& awaited, ThreadRank& rank);

 private:
  using Clock = std::chrono::steady_clock;

  [[noreturn]] void throw_failure() const;
  void check_ended(const Awaited& awaited, int rank) const;
  /// Throws when each of several ranks sleeps for the next one, this rank among them.
  void check_circle(const Awaited& awaited, int rank) const;
  void sleep(const Awaited& awaited, ThreadRank& rank);

  struct alignas(64) Flag {
    std::atomic<bool> value{false};
  };

  double timeout_seconds_;
  int spins_;
  std::vector<Flag> ended_;
  std::atomic<bool> failed_{false};
  int failed_rank_ = 0;  // written before failed_
  std::string failure_;  // the same
  std::atomic<int> sleepers_{0};
  std::vector<const Awaited*> asleep_;  // by rank; under the mutex
  std::mutex mutex_;
  std::condition_variable changed_;
};

}  // namespace pando
