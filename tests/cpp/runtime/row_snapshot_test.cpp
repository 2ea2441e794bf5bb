// Rows as they were, read while stores go on: all rows, each with its old value.
#include "pando/runtime/row_snapshot.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <future>
#include <random>
#include <thread>

#include "pando/backends/cpu/cpu_device.hpp"
#include "pando/base/error.hpp"
#include "pando/runtime/remote_memory.hpp"

namespace pando::testing {
namespace {

constexpr std::int64_t kSnapshotSlots = 40;
constexpr std::size_t kSnapshotRowBytes = 256;
using Row = std::vector<std::byte>;

Row filled(std::int64_t value) { return Row(kSnapshotRowBytes, static_cast<std::byte>(value)); }

const std::unique_ptr<Device> kSnapshotDevice = make_cpu_device(1);

std::unique_ptr<RemoteMemory> memory_with_rows() {
  const RemoteBufferDesc buffer{
      1, DType::UInt8, {static_cast<std::int64_t>(kSnapshotRowBytes)}, kSnapshotSlots};
  std::unique_ptr<RemoteMemory> memory =
      std::move(make_ram_memories({&buffer}, *kSnapshotDevice).front());
  for (std::int64_t slot = 0; slot < kSnapshotSlots; ++slot) {
    memory->store(slot, filled(slot).data(), kSnapshotRowBytes);
  }
  return memory;
}

std::shared_ptr<SnapshotRoom> room_of(std::int64_t rows) {
  auto room = std::make_shared<SnapshotRoom>();
  room->limit = rows * static_cast<std::int64_t>(kSnapshotRowBytes);
  return room;
}

/// Reads all that is left; every slot at most once, with the value it had.
std::vector<std::int64_t> read_all(RowSnapshot& snapshot) {
  std::vector<std::int64_t> slots;
  Row row(kSnapshotRowBytes);
  while (true) {
    const std::int64_t slot = snapshot.next(row.data());
    if (slot < 0) break;
    EXPECT_EQ(row, filled(slot));
    slots.push_back(slot);
  }
  std::sort(slots.begin(), slots.end());
  EXPECT_EQ(std::unique(slots.begin(), slots.end()), slots.end());
  return slots;
}

/// The number of rows left, each of which holds `value`.
int read_all_of(RowSnapshot& snapshot, std::int64_t value) {
  int count = 0;
  Row row(kSnapshotRowBytes);
  while (snapshot.next(row.data()) >= 0) {
    EXPECT_EQ(row, filled(value));
    ++count;
  }
  return count;
}

TEST(RowSnapshot, StoresOfAnotherThreadDoNotShow) {
  for (const std::int64_t room_rows : {0, 1, 7, 1000}) {
    const auto memory = memory_with_rows();
    const auto room = room_of(room_rows);
    const auto snapshot = memory->snapshot(room);
    std::thread program([&] {
      std::mt19937 random(3);
      for (int i = 0; i < 2000; ++i) {
        const auto slot = static_cast<std::int64_t>(random() % kSnapshotSlots);
        memory->store(slot, filled(100 + i % 100).data(), kSnapshotRowBytes);
      }
    });
    EXPECT_EQ(read_all(*snapshot).size(), static_cast<std::size_t>(kSnapshotSlots)) << room_rows;
    program.join();
    EXPECT_EQ(room->used, 0);
  }
}

/// One row, whose reads stop in the middle.
class GatedMemory final : public RemoteMemory {
 public:
  GatedMemory() : RemoteMemory(1, kSnapshotRowBytes) {}
  ~GatedMemory() override { end_snapshot(); }
  bool is_slow() const override { return false; }
  void load(std::int64_t, std::byte* to, std::size_t bytes) override {
    reading.set_value();
    go_on.get_future().wait();
    std::fill_n(to, bytes, std::byte{7});
  }

  std::promise<void> reading, go_on;

 private:
  void store_row(std::int64_t, const std::byte*, std::size_t) override {}
};

TEST(RowSnapshot, TheLastRowIsWaitedForWhileAStoreCopiesIt) {
  for (int i = 0; i < 100; ++i) {
    GatedMemory memory;
    const auto snapshot = memory.snapshot(room_of(1));
    std::thread program([&] { memory.store(0, filled(1).data(), kSnapshotRowBytes); });
    memory.reading.get_future().wait();
    std::thread release([&] { memory.go_on.set_value(); });
    EXPECT_EQ(read_all_of(*snapshot, 7), 1) << i;
    program.join();
    release.join();
  }
}

TEST(RowSnapshot, CopiesComeFirstAndTakeNoMoreThanTheirRoom) {
  const auto memory = memory_with_rows();
  const auto room = room_of(2);
  const auto snapshot = memory->snapshot(room);
  memory->store(30, filled(1).data(), kSnapshotRowBytes);
  memory->store(20, filled(1).data(), kSnapshotRowBytes);
  EXPECT_EQ(room->used, room->limit);
  EXPECT_TRUE(snapshot->has_copies());
  Row row(kSnapshotRowBytes);
  EXPECT_EQ(snapshot->next(row.data()), 20);
  EXPECT_EQ(row, filled(20));
  EXPECT_EQ(snapshot->next(row.data()), 30);
  EXPECT_EQ(room->used, 0);
  EXPECT_FALSE(snapshot->has_copies());
  EXPECT_EQ(snapshot->next(row.data()), 0);
}

TEST(RowSnapshot, CancellingLetsStoresGoOn) {
  const auto memory = memory_with_rows();
  const auto snapshot = memory->snapshot(room_of(0));
  std::thread program([&] { memory->store(5, filled(9).data(), kSnapshotRowBytes); });
  while (!snapshot->is_wanted()) std::this_thread::yield();
  snapshot->cancel();
  program.join();
  EXPECT_TRUE(read_all(*snapshot).empty());
  Row row(kSnapshotRowBytes);
  memory->load(5, row.data(), kSnapshotRowBytes);
  EXPECT_EQ(row, filled(9));
}

TEST(RowSnapshot, ALaterOneEndsAnEarlierOne) {
  const auto memory = memory_with_rows();
  const auto first = memory->snapshot(room_of(1));
  const auto second = memory->snapshot(room_of(1));
  EXPECT_TRUE(read_all(*first).empty());
  EXPECT_EQ(read_all(*second).size(), static_cast<std::size_t>(kSnapshotSlots));
}

TEST(RowSnapshot, MemoryThatIsGoneIsAFault) {
  auto memory = memory_with_rows();
  const auto snapshot = memory->snapshot(room_of(1));
  memory.reset();
  Row row(kSnapshotRowBytes);
  EXPECT_THROW(snapshot->next(row.data()), RuntimeFault);
}

TEST(RowSnapshot, AStoreThatGivesUpLeavesTheRow) {
  const auto memory = memory_with_rows();
  const auto room = room_of(0);
  const auto snapshot = memory->snapshot(room);
  const auto store = [&] {
    memory->store(3, filled(100).data(), kSnapshotRowBytes, [] { throw Interrupted(); });
  };
  EXPECT_THROW(store(), Interrupted);
  EXPECT_FALSE(snapshot->is_wanted());
  EXPECT_EQ(room->used, 0);
  EXPECT_EQ(read_all(*snapshot).size(), static_cast<std::size_t>(kSnapshotSlots));
  store();
  Row row(kSnapshotRowBytes);
  memory->load(3, row.data(), kSnapshotRowBytes);
  EXPECT_EQ(row, filled(100));
}

}  // namespace
}  // namespace pando::testing
