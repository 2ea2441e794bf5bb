// Queues between programs and the host: order, waiting, and every way to end.
#include "pando/runtime/transfer_queue.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <thread>

#include "pando/base/error.hpp"
#include "pando/runtime/stream_thread.hpp"
#include "tests/cpp/error_of.hpp"

namespace pando {
namespace {

using testing::error_of;

using Values = std::vector<int>;

const std::byte* bytes_of(const Values& values) {
  return reinterpret_cast<const std::byte*>(values.data());
}

/// What a replica does with its part of a transfer.
int load(TransferQueue& queue, std::int64_t part, const StopCheck& check = {}) {
  int value = 0;
  std::memcpy(&value, queue.begin(part, check), sizeof value);
  queue.end(part);
  return value;
}

void store(TransferQueue& queue, std::int64_t part, int value, const StopCheck& check = {}) {
  std::memcpy(queue.begin(part, check), &value, sizeof value);
  queue.end(part);
}

std::shared_ptr<TransferQueue> queue_of(bool to_device, std::int64_t parts, std::int64_t room) {
  return std::make_shared<TransferQueue>("s", to_device, sizeof(int), parts, room);
}

TEST(TransferQueue, ReplicasGetTheirPartsInOrder) {
  constexpr int kTransfers = 500, kParts = 3;
  for (const std::int64_t room : {1, 2, 5}) {
    const auto queue = queue_of(true, kParts, room);
    int next = 0;
    const auto thread = StreamThread::pulling(queue, [&](std::byte* transfer) {
      const Values values = {next, next + 1, next + 2};
      std::memcpy(transfer, values.data(), sizeof(int) * kParts);
      next += kParts;
      return true;
    });
    queue->begin_run();
    std::vector<std::thread> replicas;
    std::atomic<int> faults = 0;
    for (int part = 0; part < kParts; ++part) {
      replicas.emplace_back([&, part] {
        for (int k = 0; k < kTransfers; ++k) faults += load(*queue, part) != k * kParts + part;
      });
    }
    for (std::thread& replica : replicas) replica.join();
    queue->end_run();
    EXPECT_EQ(faults, 0);
    EXPECT_EQ(queue->transfers(), kTransfers);
  }
}

TEST(TransferQueue, TheHostGetsWholeTransfersInOrder) {
  constexpr int kTransfers = 500, kParts = 3;
  for (const std::int64_t room : {1, 2, 5}) {
    const auto queue = queue_of(false, kParts, room);
    Values taken;
    const auto thread = StreamThread::pushing(queue, [&](const std::byte* transfer) {
      Values values(kParts);
      std::memcpy(values.data(), transfer, sizeof(int) * kParts);
      taken.insert(taken.end(), values.begin(), values.end());
    });
    queue->begin_run();
    std::vector<std::thread> replicas;
    for (int part = 0; part < kParts; ++part) {
      replicas.emplace_back([&, part] {
        for (int k = 0; k < kTransfers; ++k) store(*queue, part, k * kParts + part);
      });
    }
    for (std::thread& replica : replicas) replica.join();
    queue->end_run();
    thread->flush({});
    ASSERT_EQ(taken.size(), std::size_t{kTransfers * kParts});
    for (int i = 0; i < kTransfers * kParts; ++i) ASSERT_EQ(taken[static_cast<std::size_t>(i)], i);
  }
}

TEST(TransferQueue, WhatIsLeftIsThereAfterTheEnd) {
  const auto input = queue_of(true, 1, 4);
  for (const int value : {1, 2}) EXPECT_TRUE(input->put(bytes_of({value}), {}));
  input->close();
  EXPECT_FALSE(input->put(bytes_of({3}), {}));
  EXPECT_EQ(load(*input, 0), 1);
  EXPECT_EQ(load(*input, 0), 2);
  EXPECT_NE(error_of<RuntimeFault>([&] { load(*input, 0); }).find("'s' ended after 2 transfers"),
            std::string::npos);

  const auto output = queue_of(false, 1, 4);
  store(*output, 0, 7);
  output->close();
  EXPECT_NE(error_of<RuntimeFault>([&] { store(*output, 0, 8); }).find("'s' was closed"),
            std::string::npos);
  int value = 0;
  EXPECT_TRUE(output->take(reinterpret_cast<std::byte*>(&value), {}));
  EXPECT_EQ(value, 7);
  EXPECT_FALSE(output->take(reinterpret_cast<std::byte*>(&value), {}));
}

TEST(TransferQueue, AFunctionThatThrowsFailsTheRun) {
  const auto queue = queue_of(true, 1, 2);
  const auto thread = StreamThread::pulling(
      queue, [](std::byte*) -> bool { throw std::out_of_range("nothing there"); });
  EXPECT_EQ(error_of<std::out_of_range>([&] { load(*queue, 0); }), "nothing there");

  const auto output = queue_of(false, 1, 1);
  const auto sink =
      StreamThread::pushing(output, [](const std::byte*) { throw std::out_of_range("no place"); });
  store(*output, 0, 1);
  sink->flush({});
  EXPECT_EQ(error_of<std::out_of_range>([&] { store(*output, 0, 2); }), "no place");
}

TEST(TransferQueue, WhoWaitsCanBeStopped) {
  const auto queue = queue_of(true, 1, 1);
  const StopCheck stop = stop_check([] { return true; });
  EXPECT_THROW(load(*queue, 0, stop), Interrupted);
  EXPECT_TRUE(queue->put(bytes_of({1}), stop));
  EXPECT_THROW(queue->put(bytes_of({2}), stop), Interrupted);
  EXPECT_EQ(load(*queue, 0, stop), 1);
}

TEST(TransferQueue, RunsBeginAtOneTransferAndTakeTurns) {
  const auto input = queue_of(true, 2, 4);
  for (const int k : {0, 1, 2}) EXPECT_TRUE(input->put(bytes_of({2 * k, 2 * k + 1}), {}));
  input->begin_run();
  EXPECT_NE(error_of<ValueError>([&] { input->begin_run(); }).find("another run has its queue"),
            std::string::npos);
  EXPECT_EQ(load(*input, 0), 0);  // and the run fails before replica 1 loads
  input->end_run();
  input->begin_run();
  EXPECT_EQ(load(*input, 0), 2);
  EXPECT_EQ(load(*input, 1), 3);

  const auto output = queue_of(false, 2, 4);
  output->begin_run();
  store(*output, 0, 100);
  output->end_run();
  output->begin_run();
  store(*output, 0, 10);
  store(*output, 1, 11);
  Values taken(2);
  EXPECT_TRUE(output->take(reinterpret_cast<std::byte*>(taken.data()), {}));
  EXPECT_EQ(taken, (Values{10, 11}));
}

TEST(TransferQueue, SizesAreChecked) {
  EXPECT_THROW(TransferQueue("s", true, 4, 1, 0), ValueError);
  EXPECT_THROW(TransferQueue("s", true, 4, 0, 1), ValueError);
  EXPECT_THROW(TransferQueue("s", true, -4, 1, 1), ValueError);
  EXPECT_THROW(TransferQueue("s", true, std::int64_t{1} << 40, 1 << 20, 1 << 20), ValueError);
  EXPECT_THROW(StreamThread::pulling(queue_of(false, 1, 1), {}), ValueError);
  EXPECT_THROW(StreamThread::pushing(queue_of(true, 1, 1), {}), ValueError);
}

}  // namespace
}  // namespace pando
