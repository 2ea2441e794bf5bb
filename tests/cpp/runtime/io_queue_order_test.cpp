// Which transfer a thread of the queue takes next: one thread, held in a first transfer until all
// others have been asked for and whoever waits does wait.
#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <thread>

#include "pando/base/error.hpp"
#include "pando/runtime/io_queue.hpp"

namespace pando::testing {
namespace {

constexpr std::int64_t kGate = 0;
constexpr std::int64_t kQueueSlots = 8;
constexpr std::size_t kRowBytes = 4096;

using Row = std::vector<std::byte>;

/// Notes what is served. A load of the gate does not end before open().
class GatedMemory final : public RemoteMemory {
 public:
  GatedMemory() : RemoteMemory(kQueueSlots, kRowBytes) {}
  ~GatedMemory() override { end_snapshot(); }

  bool is_slow() const override { return true; }
  void load(std::int64_t slot, std::byte* /*to*/, std::size_t /*bytes*/) override {
    if (slot != kGate) return served_.push_back(str_cat("load ", slot));
    entered_.count_down();
    gate_.wait();
  }
  void wait_until_entered() { entered_.wait(); }
  void open() { gate_.count_down(); }
  /// Once the queue has finished.
  const std::vector<std::string>& served() const { return served_; }

 private:
  void store_row(std::int64_t slot, const std::byte* /*from*/, std::size_t /*bytes*/) override {
    served_.push_back(str_cat("store ", slot));
  }

  std::vector<std::string> served_;
  std::latch entered_{1}, gate_{1};
};

class IoQueueOrder : public ::testing::Test {
 protected:
  /// The only thread is held in the gate, so nothing is served yet.
  IoQueueOrder() {
    load(kGate);
    memory_.wait_until_entered();
  }

  IoQueue::Ticket load(std::int64_t slot) {
    return queue_.start_load(memory_, slot, row_.data(), row_.size());
  }
  void store(std::int64_t slot) { queue_.store(memory_, slot, row_.data(), row_.size()); }

  /// Serves everything as soon as `waiting` calls wait.
  std::vector<std::string> served_once_waiting(int waiting) {
    while (queue_.waiting_calls() < waiting) std::this_thread::yield();
    memory_.open();
    for (std::thread& thread : waiters_) thread.join();
    queue_.finish();
    return memory_.served();
  }

  GatedMemory memory_;
  Row row_ = Row(kRowBytes);
  std::vector<std::thread> waiters_;
  IoQueue queue_{1, 2 * kRowBytes};  // room for two stores
};

using Served = std::vector<std::string>;

TEST_F(IoQueueOrder, WithoutAnyoneWaitingItIsThatOfTheCalls) {
  load(1);
  store(2);
  load(3);
  store(4);
  EXPECT_EQ(served_once_waiting(0), (Served{"load 1", "store 2", "load 3", "store 4"}));
}

TEST_F(IoQueueOrder, WhatIsWaitedForComesFirst) {
  load(1);
  store(2);
  load(3);
  const IoQueue::Ticket wanted = load(4);
  waiters_.emplace_back([&, wanted] { queue_.wait(wanted); });
  EXPECT_EQ(served_once_waiting(1), (Served{"load 4", "load 1", "store 2", "load 3"}));
}

TEST_F(IoQueueOrder, ALoadOfARowThatIsStillToBeStoredWaitsForNothing) {
  load(1);
  store(2);
  store(3);
  queue_.wait(load(3));  // while the only thread is held
  EXPECT_EQ(served_once_waiting(0), (Served{"load 1", "store 2", "store 3"}));
}

TEST_F(IoQueueOrder, StoresGoBeforeLoadsWhileAnotherWaitsForTheirRoom) {
  load(1);
  store(2);
  store(3);
  waiters_.emplace_back([&] { store(4); });
  EXPECT_EQ(served_once_waiting(1), (Served{"store 2", "store 3", "load 1", "store 4"}));
}

TEST_F(IoQueueOrder, AStoreDoesNotWaitForManyLoads) {
  constexpr int kLoads = 1000;
  for (int i = 0; i < kLoads; ++i) load(1);
  std::atomic<bool> stored = false;
  waiters_.emplace_back([&] {
    store(2);
    stored = true;
  });
  while (!stored && queue_.waiting_calls() == 0) std::this_thread::yield();
  EXPECT_TRUE(stored);
  Served wanted(kLoads, "load 1");
  wanted.emplace_back("store 2");
  EXPECT_EQ(served_once_waiting(0), wanted);
}

TEST_F(IoQueueOrder, ALoadThatIsWaitedForGoesBeforeStoresWhoseRoomIs) {
  load(1);
  store(2);
  store(3);
  const IoQueue::Ticket wanted = load(4);
  waiters_.emplace_back([&, wanted] { queue_.wait(wanted); });
  waiters_.emplace_back([&] { store(5); });
  EXPECT_EQ(served_once_waiting(2), (Served{"load 4", "store 2", "store 3", "load 1", "store 5"}));
}

}  // namespace
}  // namespace pando::testing
