#include "pando/runtime/thread_team.hpp"

#include <utility>

#include "pando/base/error.hpp"
#include "pando/base/spin.hpp"
#include "pando/base/start_thread.hpp"
#include "pando/runtime/waiting.hpp"

namespace pando {

namespace {

/// Looks `spins` times at most.
template <class Condition>
void spin_until(int spins, const Condition& condition) {
  for (int spin = 0; spin < spins && !condition(); ++spin) spin_pause();
}

}  // namespace

ThreadTeam::ThreadTeam(int members, int spins, const char* members_are, Hooks hooks)
    : members_(members),
      spins_(spins),
      hooks_(std::move(hooks)),
      errors_(static_cast<std::size_t>(members)) {
  try {
    start_threads(threads_, static_cast<std::size_t>(members - 1), members_are,
                  [this](int thread) { serve(thread + 1); });
  } catch (...) {
    close();
    throw;
  }
}

ThreadTeam::~ThreadTeam() { close(); }

void ThreadTeam::close() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  started_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

const std::vector<std::exception_ptr>& ThreadTeam::run(const std::function<void(int)>& work) {
  {
    const std::lock_guard lock(mutex_);
    for (std::exception_ptr& error : errors_) error = nullptr;
    failed_.store(false);
    work_ = &work;
    running_ = members_ - 1;
    ++generation_;
  }
  started_.notify_all();
  run_one(0);
  wait_for_others();
  return errors_;
}

void ThreadTeam::serve(int member) {
  std::uint64_t served = 0;
  const auto called = [&] { return closing_ || generation_ != served; };
  for (;;) {
    spin_until(spins_, called);
    {
      std::unique_lock lock(mutex_);
      started_.wait(lock, called);
      if (closing_) return;
      served = generation_;
    }
    run_one(member);
    {
      const std::lock_guard lock(mutex_);
      --running_;
    }
    finished_.notify_one();
  }
}

void ThreadTeam::run_one(int member) {
  try {
    (*work_)(member);
  } catch (...) {
    fail(member, std::current_exception());
  }
  if (hooks_.on_end) hooks_.on_end(member);
}

void ThreadTeam::fail(int member, std::exception_ptr error) {
  std::exception_ptr& kept = errors_[static_cast<std::size_t>(member)];
  kept = std::move(error);
  failed_.store(true);
  hooks_.on_failure(member, kept);
}

void ThreadTeam::wait_for_others() {
  const auto done = [&] { return running_ == 0; };
  spin_until(spins_, done);
  std::unique_lock lock(mutex_);
  while (!done()) {
    // A run that has failed ends by itself: there is nothing more to ask.
    if (!hooks_.should_stop || failed_.load()) {
      finished_.wait(lock, done);
      break;
    }
    if (finished_.wait_for(lock, kPollInterval, done)) break;
    lock.unlock();
    try {
      if (hooks_.should_stop()) throw Interrupted();
    } catch (...) {
      fail(0, std::current_exception());
    }
    lock.lock();
  }
}

}  // namespace pando
