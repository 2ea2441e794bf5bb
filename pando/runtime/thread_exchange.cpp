#include "pando/runtime/thread_exchange.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

#include "pando/base/error.hpp"
#include "pando/base/spin.hpp"
#include "pando/runtime/reduce.hpp"
#include "pando/runtime/waiting.hpp"

namespace pando {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::int64_t kElementsPerLine = 16;

/// Counts a sleeping thread.
class Sleeper {
 public:
  explicit Sleeper(std::atomic<int>& count) : count_(count) { ++count_; }
  ~Sleeper() { --count_; }
  Sleeper(const Sleeper&) = delete;
  Sleeper& operator=(const Sleeper&) = delete;

 private:
  std::atomic<int>& count_;
};

/// Elements [begin, end) of the part of member `index`, whole cache lines but for the last.
std::pair<std::int64_t, std::int64_t> part_of(std::int64_t count, std::int64_t members,
                                              std::int64_t index) {
  const std::int64_t lines = (count + kElementsPerLine - 1) / kElementsPerLine;
  const auto at = [&](std::int64_t i) {
    return std::min(count, lines * i / members * kElementsPerLine);
  };
  return {at(index), at(index + 1)};
}

}  // namespace

/// One replica's side of the exchange.
class ThreadExchange::Member : public Communicator {
 public:
  Member(ThreadExchange& exchange, int rank, std::function<bool()> should_stop)
      : exchange_(exchange), rank_(rank), should_stop_(std::move(should_stop)) {}

  int rank() const override { return rank_; }
  void stop() override { exchange_.stop(); }

  void run(const CollectiveDesc& collective, const std::byte* input, std::byte* output) override {
    element_bytes_ = static_cast<std::int64_t>(dtype_bytes(collective.dtype));
    if (collective.kind == CollectiveDesc::Kind::ReduceScatter &&
        collective.reduction == Reduction::Local) {
      return cut(collective, input, output);
    }
    Slot& own = exchange_.slots_[static_cast<std::size_t>(rank_)];
    const std::uint64_t arrived = own.progress.load(std::memory_order_relaxed) + 1;
    own.input = input;
    own.output = output;
    own.collective.store(&collective, std::memory_order_relaxed);
    exchange_.advance(rank_, arrived);
    wait_for_group(collective, arrived);
    gather_pointers(collective);
    exchange_elements(collective, output);
    exchange_.advance(rank_, arrived + 1);
    wait_for_group(collective, arrived + 1);
  }

 private:
  /// Blocks until replica `other` has made `progress` in `collective`.
  void wait_for(int other, std::uint64_t progress, const CollectiveDesc& collective);
  void sleep_for(int other, std::uint64_t progress, const CollectiveDesc& collective);
  void check_same(int other, std::uint64_t progress, const CollectiveDesc& collective);

  void wait_for_group(const CollectiveDesc& collective, std::uint64_t progress) {
    for (std::int64_t i = 0; i < collective.groups.size; ++i) {
      const auto other = static_cast<int>(collective.groups.member(rank_, i));
      if (other != rank_) wait_for(other, progress, collective);
    }
  }

  void gather_pointers(const CollectiveDesc& collective) {
    inputs_.clear();
    outputs_.clear();
    for (std::int64_t i = 0; i < collective.groups.size; ++i) {
      const Slot& slot =
          exchange_.slots_[static_cast<std::size_t>(collective.groups.member(rank_, i))];
      inputs_.push_back(slot.input);
      outputs_.push_back(slot.output);
    }
  }

  void exchange_elements(const CollectiveDesc& collective, std::byte* output) {
    const std::int64_t index = collective.groups.index_of(rank_);
    const std::int64_t count = collective.input_elements;
    switch (collective.kind) {
      case CollectiveDesc::Kind::AllReduce: {
        const auto [begin, end] = part_of(count, collective.groups.size, index);
        reduce(collective, begin, end, [&](std::int64_t at, const std::byte* block, auto bytes) {
          for (std::byte* target : outputs_)
            std::memcpy(target + at * element_bytes_, block, bytes);
        });
        break;
      }
      case CollectiveDesc::Kind::ReduceScatter: {
        const std::int64_t begin = std::min(count, index * collective.output_elements);
        const std::int64_t end = std::min(count, begin + collective.output_elements);
        reduce(collective, begin, end, [&](std::int64_t at, const std::byte* block, auto bytes) {
          std::memcpy(output + (at - begin) * element_bytes_, block, bytes);
        });
        pad(collective, output, end - begin);
        break;
      }
      case CollectiveDesc::Kind::AllGather:
        for (std::size_t i = 0; i < inputs_.size(); ++i) {
          const std::int64_t at =
              std::min(static_cast<std::int64_t>(i) * count, collective.output_elements);
          const std::int64_t end = std::min(at + count, collective.output_elements);
          copy(output + at * element_bytes_, inputs_[i], end - at);
        }
        break;
    }
  }

  /// Reduces elements [begin, end) in blocks: store(first element, block, bytes).
  template <class Store>
  void reduce(const CollectiveDesc& collective, std::int64_t begin, std::int64_t end, Store store) {
    alignas(64) std::byte block[kReduceBlock * sizeof(float)];
    std::vector<const std::byte*>& at = block_inputs_;
    at.resize(inputs_.size());
    for (std::int64_t i = begin; i < end; i += kReduceBlock) {
      const std::int64_t count = std::min(kReduceBlock, end - i);
      for (std::size_t m = 0; m < at.size(); ++m) at[m] = inputs_[m] + i * element_bytes_;
      reduce_elements(collective.reduction, collective.dtype, at, count, block);
      store(i, block, static_cast<std::size_t>(count * element_bytes_));
    }
  }

  /// A reduce-scatter that reduces nothing: part `index` of this replica's own input.
  void cut(const CollectiveDesc& collective, const std::byte* input, std::byte* output) const {
    const std::int64_t index = collective.groups.index_of(rank_);
    const std::int64_t begin =
        std::min(collective.input_elements, index * collective.output_elements);
    const std::int64_t count =
        std::min(collective.output_elements, collective.input_elements - begin);
    copy(output, input + begin * element_bytes_, count);
    pad(collective, output, count);
  }

  void pad(const CollectiveDesc& collective, std::byte* output, std::int64_t from) const {
    const std::int64_t missing = collective.output_elements - from;
    if (missing <= 0) return;
    std::memset(output + from * element_bytes_, 0,
                static_cast<std::size_t>(missing * element_bytes_));
  }

  void copy(std::byte* to, const std::byte* from, std::int64_t count) const {
    if (count > 0) std::memcpy(to, from, static_cast<std::size_t>(count * element_bytes_));
  }

  ThreadExchange& exchange_;
  int rank_;
  std::function<bool()> should_stop_;
  std::int64_t element_bytes_ = 0;
  std::vector<const std::byte*> inputs_;
  std::vector<const std::byte*> block_inputs_;
  std::vector<std::byte*> outputs_;
};

ThreadExchange::ThreadExchange(int replicas, double timeout_seconds)
    : slots_(static_cast<std::size_t>(replicas)),
      timeout_seconds_(timeout_seconds),
      spins_(team_spins(replicas)) {}

std::unique_ptr<Communicator> ThreadExchange::communicator(int rank,
                                                           std::function<bool()> should_stop) {
  return std::make_unique<Member>(*this, rank, std::move(should_stop));
}

void ThreadExchange::begin() {
  for (Slot& slot : slots_) slot.progress.store(0, std::memory_order_relaxed);
  stopped_.store(false, std::memory_order_release);
}

void ThreadExchange::end(int rank) { advance(rank, kEnded); }

void ThreadExchange::stop() {
  stopped_.store(true, std::memory_order_release);
  const std::lock_guard lock(mutex_);
  advanced_.notify_all();
}

void ThreadExchange::advance(int rank, std::uint64_t progress) {
  // Sequentially consistent, as the sleeper's side: one of the two sees the other.
  slots_[static_cast<std::size_t>(rank)].progress.store(progress);
  if (sleepers_.load() == 0) return;
  const std::lock_guard lock(mutex_);
  advanced_.notify_all();
}

void ThreadExchange::Member::wait_for(int other, std::uint64_t progress,
                                      const CollectiveDesc& collective) {
  const Slot& slot = exchange_.slots_[static_cast<std::size_t>(other)];
  for (int spin = 0; slot.progress.load(std::memory_order_acquire) < progress; ++spin) {
    if (exchange_.stopped()) throw ReplicaStopped();
    if (spin == exchange_.spins_) {
      sleep_for(other, progress, collective);
      break;
    }
    spin_pause();
  }
  const bool arriving = progress % 2 == 1;
  if (arriving) check_same(other, progress, collective);
}

/// A member of the same collective waits for this replica before it goes further.
void ThreadExchange::Member::check_same(int other, std::uint64_t progress,
                                        const CollectiveDesc& collective) {
  const Slot& slot = exchange_.slots_[static_cast<std::size_t>(other)];
  const std::uint64_t reached = slot.progress.load(std::memory_order_acquire);
  if (reached == kEnded) {
    if (exchange_.stopped()) throw ReplicaStopped();
    throw RuntimeFault(str_cat("replica ", rank_, " waits for replica ", other, " in ",
                               collective.name, ", but replica ", other,
                               " has ended its run: all replicas must execute the same "
                               "collectives"));
  }
  const CollectiveDesc* there = slot.collective.load(std::memory_order_relaxed);
  if (there == &collective && reached <= progress + 1) return;
  throw RuntimeFault(str_cat("replica ", rank_, " is in ", collective.name, ", but replica ", other,
                             " is in ", there->name,
                             ": all replicas must execute the same collectives in the same "
                             "order"));
}

void ThreadExchange::Member::sleep_for(int other, std::uint64_t progress,
                                       const CollectiveDesc& collective) {
  const Slot& slot = exchange_.slots_[static_cast<std::size_t>(other)];
  const std::chrono::duration<double> timeout(exchange_.timeout_seconds_);
  const auto deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(timeout);
  std::unique_lock lock(exchange_.mutex_);
  const Sleeper sleeper(exchange_.sleepers_);
  while (slot.progress.load() < progress) {
    if (exchange_.stopped()) throw ReplicaStopped();
    if (Clock::now() >= deadline) {
      throw RuntimeFault(str_cat("replica ", rank_, " waited ", timeout.count(),
                                 " seconds for replica ", other, " in ", collective.name,
                                 ": it did not arrive"));
    }
    exchange_.advanced_.wait_until(lock, std::min(deadline, Clock::now() + kPollInterval));
    if (!should_stop_) continue;
    lock.unlock();
    if (should_stop_()) throw Interrupted();
    lock.lock();
  }
}

}  // namespace pando
