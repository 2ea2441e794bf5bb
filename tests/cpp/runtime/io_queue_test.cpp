// Transfers in the background: order by row, failed stores, room for stores under way.
#include "pando/runtime/io_queue.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <random>

#include "pando/base/error.hpp"

namespace pando::testing {
namespace {

using Row = std::vector<std::byte>;

/// Rows in RAM that behave as slow ones; fails while told to, and sees stores of a row that meet
/// other uses of it.
class FakeMemory final : public RemoteMemory {
 public:
  FakeMemory(std::int64_t slots, std::size_t slot_bytes)
      : RemoteMemory(slots, slot_bytes),
        rows_(static_cast<std::size_t>(slots), Row(slot_bytes)),
        users_(static_cast<std::size_t>(slots)) {}

  std::atomic<bool> failing = false;
  std::atomic<int> collisions = 0;
  std::atomic<int> stores = 0;

  bool is_slow() const override { return true; }
  void load(std::int64_t slot, std::byte* to, std::size_t bytes) override {
    const Row& row = enter(slot, 1);
    std::memcpy(to, row.data(), bytes);
    leave(slot, 1);
    if (failing) throw RuntimeFault(str_cat("row ", slot, " is damaged"));
  }
  ~FakeMemory() override { end_snapshot(); }

 private:
  void store_row(std::int64_t slot, const std::byte* from, std::size_t bytes) override {
    if (failing) throw RuntimeFault(str_cat("no room for row ", slot));
    Row& row = enter(slot, kStoring);
    std::memcpy(row.data(), from, bytes);
    std::memset(row.data() + bytes, 0, row.size() - bytes);
    leave(slot, kStoring);
    ++stores;
  }
  static constexpr int kStoring = 1000;

  Row& enter(std::int64_t slot, int use) {
    const auto index = static_cast<std::size_t>(slot);
    const int others = users_[index].fetch_add(use);
    if (use == kStoring ? others != 0 : others >= kStoring) ++collisions;
    std::this_thread::yield();
    return rows_[index];
  }
  void leave(std::int64_t slot, int use) { users_[static_cast<std::size_t>(slot)] -= use; }

  std::vector<Row> rows_;
  std::vector<std::atomic<int>> users_;
};

constexpr std::int64_t kRoom = std::int64_t{1} << 20;

Row filled(std::size_t bytes, int value) { return Row(bytes, static_cast<std::byte>(value)); }

Row loaded(IoQueue& queue, FakeMemory& memory, std::int64_t slot) {
  Row row(memory.slot_bytes());
  queue.wait(queue.start_load(memory, slot, row.data(), row.size()));
  return row;
}

class RandomTransfers : public ::testing::TestWithParam<std::int64_t> {};

TEST_P(RandomTransfers, GiveWhatTheOrderOfTheCallsGives) {
  constexpr int kSlots = 3;
  constexpr std::size_t kBytes = 6000;
  constexpr std::size_t kMostLoads = 8;
  std::mt19937 random(20260801);
  FakeMemory memory(kSlots, kBytes);
  std::vector<Row> wanted(kSlots, filled(kBytes, 0));
  IoQueue queue(3, GetParam());
  struct Load {
    IoQueue::Ticket ticket;
    Row got, wanted;
  };
  std::vector<std::unique_ptr<Load>> loads;
  const auto wait_for_one = [&] {
    const auto it = loads.begin() + static_cast<std::ptrdiff_t>(random() % loads.size());
    queue.wait((*it)->ticket);
    EXPECT_EQ((*it)->got, (*it)->wanted);
    loads.erase(it);
  };
  std::int64_t loaded_bytes = 0;
  for (int i = 0; i < 3000; ++i) {
    const auto slot = static_cast<std::int64_t>(random() % kSlots);
    Row& row = wanted[static_cast<std::size_t>(slot)];
    const std::size_t bytes = random() % 4 == 0 ? kBytes / 3 : kBytes;
    if (random() % 2 == 0) {
      row = filled(kBytes, 0);
      std::fill_n(row.begin(), bytes, static_cast<std::byte>(1 + i % 251));
      queue.store(memory, slot, row.data(), bytes);
      continue;
    }
    if (loads.size() == kMostLoads) wait_for_one();
    loads.push_back(std::make_unique<Load>());
    Load& load = *loads.back();
    load.got.resize(bytes);
    load.wanted.assign(row.begin(), row.begin() + static_cast<std::ptrdiff_t>(bytes));
    load.ticket = queue.start_load(memory, slot, load.got.data(), bytes);
    loaded_bytes += static_cast<std::int64_t>(bytes);
  }
  while (!loads.empty()) wait_for_one();
  queue.finish();
  EXPECT_EQ(memory.collisions, 0);
  const IoReport report = queue.report();
  EXPECT_EQ(report.bytes_loaded + report.bytes_from_stores, loaded_bytes);
  for (int slot = 0; slot < kSlots; ++slot) {
    EXPECT_EQ(loaded(queue, memory, slot), wanted[static_cast<std::size_t>(slot)]);
  }
}

// Room for two stores, and for more than there are.
INSTANTIATE_TEST_SUITE_P(Rooms, RandomTransfers, ::testing::Values(2 * 8192, kRoom));

TEST(IoQueue, AFailedStoreKeepsItsValueAndIsTriedAgain) {
  FakeMemory memory(2, 100);
  IoQueue queue(2, kRoom);
  const Row first = filled(100, 1), second = filled(100, 2);
  queue.store(memory, 0, first.data(), 100);
  queue.finish();
  memory.failing = true;
  queue.store(memory, 1, first.data(), 100);
  queue.store(memory, 1, second.data(), 40);
  EXPECT_THROW(queue.finish(), RuntimeFault);
  queue.finish();  // the error was given
  Row wanted = filled(100, 0);
  std::fill_n(wanted.begin(), 40, std::byte{2});
  EXPECT_EQ(loaded(queue, memory, 1), wanted);
  queue.retry();
  EXPECT_THROW(queue.finish(), RuntimeFault);
  memory.failing = false;
  queue.retry();
  queue.finish();
  EXPECT_EQ(memory.stores, 3);
  EXPECT_EQ(loaded(queue, memory, 0), first);
  EXPECT_EQ(loaded(queue, memory, 1), wanted);
}

TEST(IoQueue, ANewerStoreReplacesAFailedOne) {
  FakeMemory memory(1, 100);
  IoQueue queue(1, kRoom);
  const Row first = filled(100, 1), second = filled(100, 2);
  memory.failing = true;
  queue.store(memory, 0, first.data(), 100);
  EXPECT_THROW(queue.finish(), RuntimeFault);
  memory.failing = false;
  queue.store(memory, 0, second.data(), 100);
  queue.finish();
  queue.retry();
  queue.finish();
  EXPECT_EQ(loaded(queue, memory, 0), second);
  EXPECT_EQ(memory.stores, 1);
}

TEST(IoQueue, AFailedLoadThrowsWhereItIsWaitedFor) {
  FakeMemory memory(1, 8);
  IoQueue queue(1, kRoom);
  memory.failing = true;
  Row row(8);
  const IoQueue::Ticket ticket = queue.start_load(memory, 0, row.data(), 8);
  queue.finish();
  EXPECT_THROW(queue.wait(ticket), RuntimeFault);
  queue.start_load(memory, 0, row.data(), 8);
  queue.abandon();
  memory.failing = false;
  EXPECT_EQ(loaded(queue, memory, 0), filled(8, 0));
}

TEST(IoQueue, StoresThatFailAndFillTheRoomEndInTheirError) {
  FakeMemory memory(4, 4096);
  IoQueue queue(1, 2 * 4096);
  memory.failing = true;
  const Row row = filled(4096, 5);
  const auto store_all = [&] {
    for (int slot = 0; slot < 4; ++slot) queue.store(memory, slot, row.data(), row.size());
  };
  EXPECT_THROW(store_all(), RuntimeFault);
  queue.abandon();
  memory.failing = false;
  queue.retry();
  store_all();
  queue.finish();
  for (int slot = 0; slot < 4; ++slot) EXPECT_EQ(loaded(queue, memory, slot), row);
}

TEST(IoQueue, ARowLargerThanTheRoomIsWrittenAtOnce) {
  FakeMemory memory(1, 8192);
  IoQueue queue(1, 4096);
  const Row row = filled(8192, 9);
  queue.store(memory, 0, row.data(), row.size());
  EXPECT_EQ(memory.stores, 1);
  EXPECT_EQ(loaded(queue, memory, 0), row);
  EXPECT_EQ(queue.report().bytes_stored, 8192);
  EXPECT_EQ(queue.report().bytes_loaded, 8192);
}

TEST(IoQueue, AStoreThatWaitsForAReaderIsStoppedAndKeepsItsValue) {
  constexpr std::size_t kBytes = 100;
  FakeMemory memory(2, kBytes);
  IoQueue queue(1, kRoom);
  const auto snapshot = memory.snapshot(std::make_shared<SnapshotRoom>());
  queue.store(memory, 0, filled(kBytes, 1).data(), kBytes);
  EXPECT_THROW(queue.finish([] { throw Interrupted(); }), Interrupted);
  queue.abandon();
  EXPECT_EQ(memory.stores, 0);
  EXPECT_EQ(loaded(queue, memory, 0), filled(kBytes, 1));
  Row row = filled(kBytes, 9);
  for (int i = 0; i < 2; ++i) {
    EXPECT_GE(snapshot->next(row.data()), 0);
    EXPECT_EQ(row, filled(kBytes, 0));
  }
  queue.retry();
  queue.finish();
  EXPECT_EQ(memory.stores, 1);
}

TEST(IoQueue, ACallThatWaitsForRoomIsStopped) {
  constexpr std::size_t kPage = 4096;
  FakeMemory memory(4, kPage);
  IoQueue queue(1, kPage);
  const auto snapshot = memory.snapshot(std::make_shared<SnapshotRoom>());
  const Row row = filled(kPage, 1);
  const StopCheck stop = [] { throw Interrupted(); };
  queue.store(memory, 0, row.data(), kPage);
  EXPECT_THROW(queue.store(memory, 1, row.data(), kPage, {}, stop), Interrupted);
  Row target(kPage);
  // The only thread has the store, and not yet the load, once it waits for the reader.
  while (!snapshot->is_wanted()) std::this_thread::yield();
  EXPECT_THROW(queue.wait(queue.start_load(memory, 2, target.data(), kPage), stop), Interrupted);
  EXPECT_EQ(queue.waiting_calls(), 0);
  queue.abandon();
  snapshot->cancel();
  queue.retry();
  queue.finish();
  EXPECT_EQ(memory.stores, 1);
}

TEST(IoQueue, EndsWithoutAReader) {
  FakeMemory memory(1, 100);
  const auto snapshot = memory.snapshot(std::make_shared<SnapshotRoom>());
  IoQueue queue(1, kRoom);
  queue.store(memory, 0, filled(100, 1).data(), 100);
}

}  // namespace
}  // namespace pando::testing
