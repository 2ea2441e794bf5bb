#include "pando/backends/cpu/thread_pool.hpp"

#include <pthread.h>

#include <memory>
#include <utility>

#include "pando/base/spin.hpp"
#include "pando/base/start_thread.hpp"

namespace pando::cpu {
namespace {

// Between two kernels of a program a thread looks for work this often before it sleeps: some tenths
// of a millisecond.
constexpr int kSpins = 4000;
// The caller looks this often for the end of others' parts before it gives its core to them.
constexpr int kSpinsBeforeYield = 2000;

/// How many forks lie between this process and the first.
std::atomic<int> fork_count{0};
[[maybe_unused]] const int kForkHandler =
    pthread_atfork(nullptr, nullptr, [] { fork_count.fetch_add(1); });

thread_local bool running_part = false;
thread_local std::int64_t part_of_thread = 0;

}  // namespace

// Bits: 38 of the job, 13 of the parts, 13 of those claimed.
ThreadPool::Ticket ThreadPool::Ticket::unpack(std::uint64_t word) {
  return {word >> 26, ((word >> 13) & 0x1fff), word & 0x1fff};
}

std::uint64_t ThreadPool::Ticket::pack() const { return job << 26 | parts << 13 | claimed; }

ThreadPool& ThreadPool::of_this_thread() {
  struct Held {
    std::unique_ptr<ThreadPool> pool = std::make_unique<ThreadPool>();
    int forks = fork_count.load();
  };
  thread_local Held held;
  if (held.forks != fork_count.load(std::memory_order_relaxed)) {
    // A forked child has none of the threads, and their locks as they were: the pool is left alone.
    static_cast<void>(held.pool.release());
    held = {};
  }
  return *held.pool;
}

std::int64_t ThreadPool::current_part() { return part_of_thread; }

ThreadPool::~ThreadPool() {
  ending_.store(true);
  wake();
  for (std::thread& thread : threads_) thread.join();
}

void ThreadPool::run(std::int64_t parts, Body body, const void* context) {
  if (running_part) {
    const std::int64_t outer = part_of_thread;
    for (part_of_thread = 0; part_of_thread < parts; ++part_of_thread) {
      body(context, part_of_thread);
    }
    part_of_thread = outer;
    return;
  }
  grow(static_cast<std::size_t>(parts) - 1);
  body_.store(body, std::memory_order_relaxed);
  context_.store(context, std::memory_order_relaxed);
  float_bits_.store(FloatState::current().bits(), std::memory_order_relaxed);
  unfinished_.store(parts, std::memory_order_relaxed);
  const std::uint64_t job = Ticket::unpack(ticket_.load(std::memory_order_relaxed)).job + 1;
  ticket_.store(Ticket{job, static_cast<std::uint64_t>(parts), 0}.pack());
  wake();
  take_parts(job);
  for (int spins = 0; unfinished_.load(std::memory_order_acquire) > 0; ++spins) {
    if (spins < kSpinsBeforeYield) {
      spin_pause();
    } else {
      std::this_thread::yield();
    }
  }
  if (fault_) std::rethrow_exception(std::exchange(fault_, nullptr));
}

void ThreadPool::take_parts(std::uint64_t job) {
  std::uint64_t word = ticket_.load(std::memory_order_acquire);
  for (;;) {
    Ticket ticket = Ticket::unpack(word);
    if (ticket.job != job || ticket.claimed == ticket.parts) return;
    // Read before the claim: once it succeeds, the job cannot have ended in between.
    const Body body = body_.load(std::memory_order_relaxed);
    const void* context = context_.load(std::memory_order_relaxed);
    const FloatState::Bits float_bits = float_bits_.load(std::memory_order_relaxed);
    const auto part = static_cast<std::int64_t>(ticket.claimed);
    ++ticket.claimed;
    if (!ticket_.compare_exchange_weak(word, ticket.pack(), std::memory_order_acq_rel)) continue;
    FloatState::of_bits(float_bits).apply();
    run_part(body, context, part);
    unfinished_.fetch_sub(1, std::memory_order_release);
    word = ticket_.load(std::memory_order_acquire);
  }
}

void ThreadPool::run_part(Body body, const void* context, std::int64_t part) {
  running_part = true;
  part_of_thread = part;
  try {
    body(context, part);
  } catch (...) {
    const std::lock_guard lock(fault_mutex_);
    if (!fault_) fault_ = std::current_exception();
  }
  part_of_thread = 0;
  running_part = false;
}

void ThreadPool::work() {
  std::uint64_t job = 0;
  while (wait_for_job(job)) {
    job = Ticket::unpack(ticket_.load(std::memory_order_acquire)).job;
    take_parts(job);
  }
}

bool ThreadPool::wait_for_job(std::uint64_t job) {
  const auto changed = [&] { return ending_.load() || Ticket::unpack(ticket_.load()).job != job; };
  for (int spins = 0; spins < kSpins; ++spins) {
    if (changed()) return !ending_.load();
    spin_pause();
  }
  std::unique_lock lock(sleep_mutex_);
  ++sleepers_;
  wake_.wait(lock, changed);
  --sleepers_;
  return !ending_.load();
}

void ThreadPool::wake() {
  if (sleepers_.load() == 0) return;
  const std::lock_guard lock(sleep_mutex_);
  wake_.notify_all();
}

void ThreadPool::grow(std::size_t threads) {
  if (threads_.size() >= threads) return;
  start_threads(threads_, threads, "the kernels of a device (the setting num_threads)",
                [this](int) { work(); });
}

}  // namespace pando::cpu
