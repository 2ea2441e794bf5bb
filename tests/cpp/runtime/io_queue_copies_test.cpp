// Loads of rows whose stores have not been written: they take the value from memory, at once.
#include <gtest/gtest.h>

#include <cstring>
#include <latch>
#include <memory>
#include <mutex>

#include "pando/base/error.hpp"
#include "pando/runtime/io_queue.hpp"

namespace pando::testing {
namespace {

constexpr std::size_t kCopiedBytes = 10000;

using Row = std::vector<std::byte>;

Row copied_row(std::size_t bytes, int value) { return Row(bytes, static_cast<std::byte>(value)); }

/// Its first store does not end before open(), and then fails if it is to.
class HeldMemory final : public RemoteMemory {
 public:
  HeldMemory() : RemoteMemory(2, kCopiedBytes), rows_(2, Row(kCopiedBytes)) {}
  ~HeldMemory() override { end_snapshot(); }

  bool is_slow() const override { return true; }
  void load(std::int64_t slot, std::byte* to, std::size_t bytes) override {
    const std::lock_guard lock(mutex_);
    std::memcpy(to, rows_[static_cast<std::size_t>(slot)].data(), bytes);
    ++loads_;
  }
  void wait_until_entered() { entered_.wait(); }
  void open(bool fails = false) {
    fails_ = fails;
    gate_.count_down();
  }
  int loads() const {
    const std::lock_guard lock(mutex_);
    return loads_;
  }
  Row row(std::int64_t slot) const {
    const std::lock_guard lock(mutex_);
    return rows_[static_cast<std::size_t>(slot)];
  }

 private:
  void store_row(std::int64_t slot, const std::byte* from, std::size_t bytes) override {
    entered_.count_down();
    gate_.wait();
    if (std::exchange(fails_, false)) throw RuntimeFault("the disk is full");
    const std::lock_guard lock(mutex_);
    Row& row = rows_[static_cast<std::size_t>(slot)];
    std::memcpy(row.data(), from, bytes);
    std::memset(row.data() + bytes, 0, kCopiedBytes - bytes);
  }

  mutable std::mutex mutex_;
  std::vector<Row> rows_;
  int loads_ = 0;
  bool fails_ = false;  // written before the gate opens
  std::latch entered_{1}, gate_{1};
};

class IoQueueCopies : public ::testing::Test {
 protected:
  /// Its only thread is held in a store of row 0.
  IoQueueCopies() {
    store(0, 1);
    memory_.wait_until_entered();
  }

  void store(std::int64_t slot, int value, std::size_t bytes = kCopiedBytes) {
    const Row row = copied_row(bytes, value);
    queue_.store(memory_, slot, row.data(), row.size());
  }
  IoQueue::Ticket start_load(std::int64_t slot, Row& row) {
    return queue_.start_load(memory_, slot, row.data(), row.size());
  }
  Row loaded(std::int64_t slot) {
    Row row(kCopiedBytes);
    queue_.wait(start_load(slot, row));
    return row;
  }

  HeldMemory memory_;
  IoQueue queue_{1, 4 * 12288};  // room for four stores
};

TEST_F(IoQueueCopies, OfAStoreThatIsGoingOn) {
  EXPECT_EQ(loaded(0), copied_row(kCopiedBytes, 1));
  EXPECT_EQ(loaded(0), copied_row(kCopiedBytes, 1));
  memory_.open();
  queue_.finish();
  EXPECT_EQ(memory_.loads(), 0);
  EXPECT_EQ(queue_.report().bytes_from_stores, static_cast<std::int64_t>(2 * kCopiedBytes));
  EXPECT_EQ(queue_.report().bytes_loaded, 0);
  EXPECT_EQ(loaded(0), copied_row(kCopiedBytes, 1));
  EXPECT_EQ(memory_.loads(), 1);
}

TEST_F(IoQueueCopies, AreOfTheLatestStore) {
  store(0, 2);
  store(1, 9);
  store(0, 3, 4000);
  Row wanted = copied_row(kCopiedBytes, 0);
  std::fill_n(wanted.begin(), 4000, std::byte{3});
  EXPECT_EQ(loaded(0), wanted);
  EXPECT_EQ(loaded(1), copied_row(kCopiedBytes, 9));
  memory_.open();
  queue_.finish();
  EXPECT_EQ(memory_.row(0), wanted);
  EXPECT_EQ(memory_.loads(), 0);
}

TEST_F(IoQueueCopies, KeepTheirValueWhenTheRowIsStoredAgain) {
  Row before(kCopiedBytes), part(100);
  const IoQueue::Ticket first = start_load(0, before), second = start_load(0, part);
  store(0, 2);
  EXPECT_EQ(loaded(0), copied_row(kCopiedBytes, 2));
  memory_.open();
  queue_.finish();
  queue_.wait(second);
  queue_.wait(first);
  EXPECT_EQ(before, copied_row(kCopiedBytes, 1));
  EXPECT_EQ(part, copied_row(100, 1));
  EXPECT_EQ(memory_.row(0), copied_row(kCopiedBytes, 2));
}

TEST_F(IoQueueCopies, OfAStoreThatFailsAfterwards) {
  Row row(kCopiedBytes);
  const IoQueue::Ticket ticket = start_load(0, row);
  memory_.open(true);
  EXPECT_THROW(queue_.finish(), RuntimeFault);
  queue_.wait(ticket);
  EXPECT_EQ(row, copied_row(kCopiedBytes, 1));
  EXPECT_EQ(memory_.row(0), copied_row(kCopiedBytes, 0));
  EXPECT_EQ(loaded(0), copied_row(kCopiedBytes, 1));
  queue_.retry();
  queue_.finish();
  EXPECT_EQ(memory_.row(0), copied_row(kCopiedBytes, 1));
}

TEST_F(IoQueueCopies, GiveTheirRoomBack) {
  Row row(kCopiedBytes);
  const IoQueue::Ticket ticket = start_load(0, row);
  memory_.open();
  for (int value = 2; value < 20; ++value) store(value % 2, value);
  queue_.finish();
  queue_.wait(ticket);
  EXPECT_EQ(row, copied_row(kCopiedBytes, 1));
  EXPECT_EQ(loaded(0), copied_row(kCopiedBytes, 18));
  EXPECT_EQ(loaded(1), copied_row(kCopiedBytes, 19));
}

TEST_F(IoQueueCopies, MayBeForgotten) {
  Row row(kCopiedBytes);
  start_load(0, row);
  memory_.open();
  queue_.abandon();
  EXPECT_EQ(row, copied_row(kCopiedBytes, 1));
  EXPECT_EQ(loaded(0), copied_row(kCopiedBytes, 1));
}

}  // namespace
}  // namespace pando::testing
