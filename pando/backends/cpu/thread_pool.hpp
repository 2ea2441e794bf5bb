// Threads that share the parts of a kernel's loop with the thread that runs the program.
//
// A part belongs to whoever claims it first, and the caller claims parts too: on a machine with
// other work it never waits for a thread that the system has not let run. What a part computes
// depends on its number alone, so results do not depend on who ran it.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "pando/base/float_state.hpp"

namespace pando::cpu {

class ThreadPool {
 public:
  using Body = void (*)(const void* context, std::int64_t part);

  ThreadPool() = default;
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  /// The pool of the calling thread; threads are made when first needed, in a forked child anew.
  static ThreadPool& of_this_thread();
  /// The part that the calling thread is running; 0 outside of parts.
  static std::int64_t current_part();

  /// Runs `body(context, i)` for every i < parts (at least 2, at most kMaxParts) on up to `parts`
  /// threads, the caller among them, under the caller's floating point state. Within a part:
  /// serially. Rethrows what a part threw, after all parts. No allocation once the threads exist;
  /// RuntimeFault when the system does not give them.
  void run(std::int64_t parts, Body body, const void* context);

  static constexpr std::int64_t kMaxParts = 1 << 12;

 private:
  /// Jobs are numbered; the ticket says which one runs and how many of its parts are claimed.
  struct Ticket {
    std::uint64_t job, parts, claimed;
    static Ticket unpack(std::uint64_t word);
    std::uint64_t pack() const;
  };

  void work();
  /// Claims and runs parts of job `job` until there are none.
  void take_parts(std::uint64_t job);
  void run_part(Body body, const void* context, std::int64_t part);
  /// Waits until the ticket is of another job than `job`, or the pool ends (false).
  bool wait_for_job(std::uint64_t job);
  void grow(std::size_t threads);
  void wake();

  std::atomic<std::uint64_t> ticket_{0};
  std::atomic<std::int64_t> unfinished_{0};
  std::atomic<Body> body_{nullptr};
  std::atomic<const void*> context_{nullptr};
  std::atomic<FloatState::Bits> float_bits_{0};
  std::atomic<bool> ending_{false};

  std::atomic<int> sleepers_{0};
  std::mutex sleep_mutex_;
  std::condition_variable wake_;

  std::mutex fault_mutex_;
  std::exception_ptr fault_;

  std::vector<std::thread> threads_;
};

}  // namespace pando::cpu
