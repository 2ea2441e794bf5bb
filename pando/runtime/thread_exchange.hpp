// Collectives between replicas that are threads of one process.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "pando/runtime/communicator.hpp"

namespace pando {

/// The meeting place of the replicas of one program. Replicas read each other's memory: each
/// reduces one part of the elements, in rank order, and writes it to all who want it.
class ThreadExchange {
 public:
  /// `timeout_seconds`: how long a replica waits for another one at a collective.
  ThreadExchange(int replicas, double timeout_seconds);

  /// For replica `rank`. The exchange must outlive it. `should_stop` (may be empty) is asked now
  /// and then while the replica waits; true ends the wait with Interrupted.
  std::unique_ptr<Communicator> communicator(int rank, std::function<bool()> should_stop = {});

  /// Starts a run: nobody is at a collective, nobody has failed. No replica may be running.
  void begin();
  /// Replica `rank` takes part in no further collective of this run.
  void end(int rank);
  /// A replica failed: every wait of this run ends with ReplicaStopped.
  void stop();
  bool stopped() const { return stopped_.load(std::memory_order_acquire); }

 private:
  class Member;

  /// What the other replicas see of one. `progress` is 2 n + 1 once it has arrived at its n-th
  /// collective (n from 0; the other fields are set) and 2 n + 2 once it has done its part of it.
  struct alignas(64) Slot {
    std::atomic<std::uint64_t> progress{0};
    std::atomic<const CollectiveDesc*> collective{nullptr};
    const std::byte* input = nullptr;
    std::byte* output = nullptr;
  };
  static constexpr std::uint64_t kEnded = ~std::uint64_t{0};

  void advance(int rank, std::uint64_t progress);

  std::vector<Slot> slots_;
  double timeout_seconds_;
  int spins_;
  std::atomic<bool> stopped_{false};
  std::atomic<int> sleepers_{0};
  std::mutex mutex_;
  std::condition_variable advanced_;
};

}  // namespace pando
