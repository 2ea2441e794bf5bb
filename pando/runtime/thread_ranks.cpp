#include "pando/runtime/thread_ranks.hpp"

#include <algorithm>

#include "pando/base/error.hpp"
#include "pando/base/spin.hpp"
#include "pando/runtime/communicator.hpp"
#include "pando/runtime/waiting.hpp"

namespace pando {
namespace {

bool is_so(const Awaited& awaited) {
  return awaited.counter->load(std::memory_order_acquire) >= awaited.wanted;
}

bool has_ready(const ThreadRank& rank) {
  return std::any_of(rank.pending.begin(), rank.pending.end(),
                     [](const PendingWork* work) { return work->is_ready(); });
}

void advance_pending(const ThreadRank& rank) {
  for (PendingWork* work : rank.pending) {
    while (work->is_ready()) work->advance();
  }
}

}  // namespace

ThreadRanks::ThreadRanks(int size, double timeout_seconds)
    : timeout_seconds_(timeout_seconds),
      spins_(team_spins(size)),
      ended_(static_cast<std::size_t>(size)),
      asleep_(static_cast<std::size_t>(size), nullptr) {}

void ThreadRanks::begin_run() {
  for (Flag& ended : ended_) ended.value.store(false, std::memory_order_relaxed);
  failed_.store(false, std::memory_order_release);
}

void ThreadRanks::end_run(int rank) {
  ended_[static_cast<std::size_t>(rank)].value.store(true);
  notify();
}

void ThreadRanks::fail(int rank, const std::string& message) {
  const std::lock_guard lock(mutex_);
  if (failed_.load(std::memory_order_relaxed)) return;
  failed_rank_ = rank;
  failure_ = message;
  failed_.store(true, std::memory_order_release);
  changed_.notify_all();
}

void ThreadRanks::throw_failure() const { throw ReplicaStopped(failed_rank_, failure_); }

void ThreadRanks::notify() {
  // A sleeper counts itself before it looks: one of the two sees the other.
  if (sleepers_.load() == 0) return;
  const std::lock_guard lock(mutex_);
  changed_.notify_all();
}

void ThreadRanks::wait(const Awaited& awaited, ThreadRank& rank) {
  for (int spin = 0; !is_so(awaited); ++spin) {
    check();
    check_ended(awaited, rank.rank);
    if (!rank.pending.empty()) advance_pending(rank);
    if (spin >= spins_) return sleep(awaited, rank);
    spin_pause();
  }
}

void ThreadRanks::check_ended(const Awaited& awaited, int rank) const {
  if (!ended_[static_cast<std::size_t>(awaited.other)].value.load()) {
    return;
  }
  // What it did before it ended is seen now.
  if (is_so(awaited)) return;
  check();
  throw RuntimeFault(ended_text(rank, awaited.other, awaited.what));
}

void ThreadRanks::check_circle(const Awaited& awaited, int rank) const {
  const Awaited* at = &awaited;
  for (std::size_t step = 0; step < asleep_.size(); ++step) {
    if (!at->needs_call || is_so(*at)) return;
    if (at->other == rank) {
      const Awaited& there = *asleep_[static_cast<std::size_t>(awaited.other)];
      throw RuntimeFault(order_text(rank, awaited.what, awaited.other, there.what));
    }
    at = asleep_[static_cast<std::size_t>(at->other)];
    if (at == nullptr) return;
  }
}

void ThreadRanks::sleep(const Awaited& awaited, ThreadRank& rank) {
  const std::chrono::duration<double> timeout(timeout_seconds_);
  const auto deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(timeout);
  /// Tells the others that and why this rank sleeps.
  struct Sleeper {
    Sleeper(ThreadRanks& all, const Awaited& why, int rank)
        : lock(all.mutex_), ranks(all), slot(all.asleep_[static_cast<std::size_t>(rank)]) {
      ++ranks.sleepers_;
      slot = &why;
    }
    ~Sleeper() {
      if (!lock.owns_lock()) lock.lock();
      slot = nullptr;
      --ranks.sleepers_;
    }
    Sleeper(const Sleeper&) = delete;
    Sleeper& operator=(const Sleeper&) = delete;
    std::unique_lock<std::mutex> lock;
    ThreadRanks& ranks;
    const Awaited*& slot;
  };
  Sleeper sleeper(*this, awaited, rank.rank);
  // Sequentially consistent: see notify.
  while (awaited.counter->load() < awaited.wanted) {
    check();
    check_ended(awaited, rank.rank);
    if (has_ready(rank)) {
      sleeper.lock.unlock();
      advance_pending(rank);
      sleeper.lock.lock();
      continue;
    }
    check_circle(awaited, rank.rank);
    if (Clock::now() >= deadline) {
      throw RuntimeFault(late_text(rank.rank, awaited.other, awaited.what, timeout_seconds_));
    }
    changed_.wait_until(sleeper.lock, std::min(deadline, Clock::now() + kPollInterval));
    if (!rank.should_stop) continue;
    sleeper.lock.unlock();
    if (rank.should_stop()) throw Interrupted();
    sleeper.lock.lock();
  }
}

}  // namespace pando
