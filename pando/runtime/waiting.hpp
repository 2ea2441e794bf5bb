// Waiting for another thread, with a look now and then at whether to stop.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>

#include "pando/base/error.hpp"

namespace pando {

/// How often a thread that waits asks whether it should stop.
inline constexpr std::chrono::milliseconds kPollInterval(20);

/// Asked by a thread that waits; throws to end the wait. May be empty: nothing ends it.
using StopCheck = std::function<void()>;

/// Throws Interrupted when `should_stop`, which may be empty, says so.
inline StopCheck stop_check(std::function<bool()> should_stop) {
  if (!should_stop) return {};
  return [should_stop = std::move(should_stop)] {
    if (should_stop()) throw Interrupted();
  };
}

/// Returns when `condition()` holds under the lock, or throws what `check` does, also with the lock
/// held. `check` is called without it.
template <class Condition>
void wait_until_or_stop(std::unique_lock<std::mutex>& lock, std::condition_variable& changed,
                        const StopCheck& check, Condition condition) {
  if (!check) return changed.wait(lock, condition);
  while (!changed.wait_for(lock, kPollInterval, condition)) {
    struct Unlocked {
      explicit Unlocked(std::unique_lock<std::mutex>& held) : lock(held) { lock.unlock(); }
      ~Unlocked() { lock.lock(); }
      Unlocked(const Unlocked&) = delete;
      Unlocked& operator=(const Unlocked&) = delete;
      std::unique_lock<std::mutex>& lock;
    };
    const Unlocked unlocked(lock);
    check();
  }
}

}  // namespace pando
