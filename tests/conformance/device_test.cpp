// What every target and every device must do. A new kind of device is one more name in
// devices_under_test().
#include "pando/runtime/device.hpp"

#include <algorithm>
#include <cstdint>
#include <random>
#include <tuple>

#include "pando/base/error.hpp"
#include "tests/conformance/device_under_test.hpp"

namespace pando::testing {
namespace {

class DeviceConformance : public ::testing::TestWithParam<std::string> {
 protected:
  DeviceUnderTest d{GetParam()};
};

KernelSpec matrix_product(std::int64_t rows, std::int64_t columns, std::int64_t depth) {
  KernelSpec spec;
  spec.kind = "MatMul";
  spec.inputs = {OperandDesc::contiguous(DType::Float32, {rows, depth}),
                 OperandDesc::contiguous(DType::Float32, {depth, columns})};
  spec.outputs = {OperandDesc::contiguous(DType::Float32, {rows, columns})};
  return spec;
}

/// Fails while it runs unless the value is 0 or 1.
KernelSpec range_check() {
  KernelSpec spec;
  spec.kind = "CheckRange";
  spec.attributes = {{"low", std::int64_t{0}},
                     {"end", std::int64_t{2}},
                     {"what", std::string("the test's value")}};
  spec.inputs = {OperandDesc::contiguous(DType::Int32, {})};
  spec.outputs = spec.inputs;
  return spec;
}

template <class T>
Bytes bytes_of_values(const std::vector<T>& values) {
  Bytes bytes(values.size() * sizeof(T));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

TEST_P(DeviceConformance, ATargetHasAnIdentityAndPreparesASpecOnce) {
  const KernelSpec spec = matrix_product(3, 5, 4);
  EXPECT_EQ(d.target->prepare(spec), d.target->prepare(spec));
  EXPECT_NE(d.target->prepare(spec), d.target->prepare(matrix_product(3, 4, 5)));
  EXPECT_EQ(d.target->identity(), d.kind.make_target(d.settings)->identity());
  EXPECT_FALSE(d.target->prepare(spec)->explain().empty());
  EXPECT_GE(d.target->num_threads(), 1);
  EXPECT_FALSE(d.target->name().empty());
}

TEST_P(DeviceConformance, ATargetRefusesAKindThatItDoesNotHave) {
  KernelSpec spec = matrix_product(3, 5, 4);
  EXPECT_TRUE(d.target->has_kernel(spec.kind));
  spec.kind = "NoSuchKind";
  EXPECT_FALSE(d.target->has_kernel(spec.kind));
  try {
    d.target->prepare(spec);
    FAIL() << "the kind was not refused";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("NoSuchKind"), std::string::npos) << error.what();
  }
}

TEST_P(DeviceConformance, MemoryIsAlignedAndZeroAtFirst) {
  for (const std::int64_t bytes : {0, 1, 4096, 100'001}) {
    const auto block = d.device->allocate(0, bytes, "a test");
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block->data()) % 64, 0U);
    EXPECT_EQ(d.read(block->data(), static_cast<std::size_t>(bytes)),
              Bytes(static_cast<std::size_t>(bytes)));
    const auto host = d.device->allocate_host(bytes, "a test");
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(host->data()) % 64, 0U);
    EXPECT_TRUE(std::all_of(host->data(), host->data() + bytes,
                            [](std::byte value) { return value == std::byte{0}; }));
  }
}

TEST_P(DeviceConformance, TooMuchMemoryIsRefusedWithItsPurpose) {
  try {
    std::ignore = d.device->allocate(0, std::int64_t{1} << 60, "the whole world");
    FAIL() << "it was not refused";
  } catch (const OutOfMemory& error) {
    EXPECT_NE(std::string(error.what()).find("the whole world"), std::string::npos);
  }
}

TEST_P(DeviceConformance, CopiesAnyNumberOfBytesBetweenAnyPlaces) {
  for (const std::size_t bytes : {0, 1, 4095, 131'072, 300'003}) {
    const Bytes given = pattern(bytes, 3);
    const auto size = static_cast<std::int64_t>(bytes);
    const auto first = d.device->allocate(0, size + 2, "a test");
    const auto second = d.device->allocate(0, size + 2, "a test");
    Bytes back(bytes + 2, std::byte{9});
    d.queue->copy(given.data(), first->data() + 1, bytes, CopyKind::HostToDevice);
    d.queue->copy(first->data() + 1, second->data() + 1, bytes, CopyKind::WithinDevice);
    d.queue->copy(second->data() + 1, back.data() + 1, bytes, CopyKind::DeviceToHost);
    d.finish();
    EXPECT_TRUE(std::equal(given.begin(), given.end(), back.begin() + 1)) << bytes;
    EXPECT_EQ(back.front(), std::byte{9});
    EXPECT_EQ(back.back(), std::byte{9});
    EXPECT_EQ(d.read(second->data(), 1), Bytes(1));
    EXPECT_EQ(d.read(second->data() + bytes + 1, 1), Bytes(1));
  }
}

TEST_P(DeviceConformance, FillsWithZerosOnlyWhereItIsTold) {
  const Bytes given = pattern(1000, 4);
  const auto block = d.block(given);
  d.queue->fill_with_zeros(block->data() + 10, 500);
  Bytes wanted = given;
  std::fill_n(wanted.begin() + 10, 500, std::byte{0});
  EXPECT_EQ(d.read(block->data(), given.size()), wanted);
}

TEST_P(DeviceConformance, ScalarsAreWrittenAndReadInOrder) {
  const auto block = d.block(Bytes(64));
  const Bytes seven = bytes_of_values(std::vector<std::int32_t>{7});
  for (std::int32_t i = 0; i < 50; ++i) {
    d.queue->write(block->data(), i);
    EXPECT_EQ(d.queue->read<std::int32_t>(block->data(), {}), i);
    d.queue->write(block->data(), -i);
    d.queue->copy(block->data(), block->data() + 32, 4, CopyKind::WithinDevice);
    d.queue->copy(seven.data(), block->data(), 4, CopyKind::HostToDevice);
    EXPECT_EQ(d.queue->read<std::int32_t>(block->data() + 32, {}), -i);
    EXPECT_EQ(d.queue->read<std::uint32_t>(block->data(), {}), 7U);
  }
  d.queue->write(block->data() + 8, std::byte{1});
  EXPECT_EQ(d.queue->read<std::byte>(block->data() + 8, {}), std::byte{1});
  EXPECT_EQ(d.queue->read<std::byte>(block->data() + 9, {}), std::byte{0});
}

TEST_P(DeviceConformance, AKernelComputesOnDeviceMemory) {
  constexpr std::int64_t rows = 37, columns = 29, depth = 23;
  std::mt19937 random(5);
  std::uniform_int_distribution<int> digit(-4, 4);
  std::vector<float> left(rows * depth), right(depth * columns), wanted(rows * columns);
  for (float& value : left) value = static_cast<float>(digit(random));
  for (float& value : right) value = static_cast<float>(digit(random));
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < columns; ++j) {
      for (std::int64_t k = 0; k < depth; ++k) {
        wanted[i * columns + j] += left[i * depth + k] * right[k * columns + j];
      }
    }
  }
  const auto kernel = d.target->prepare(matrix_product(rows, columns, depth));
  const auto a = d.block(bytes_of_values(left)), b = d.block(bytes_of_values(right));
  const auto out = d.device->allocate(0, rows * columns * 4, "a test");
  const auto scratch =
      d.device->allocate(0, static_cast<std::int64_t>(kernel->scratch_bytes()), "a test");
  {
    // The queue keeps no reference to the list.
    std::vector<std::byte*> operands = {a->data(), b->data(), out->data()};
    d.queue->run(*kernel, operands, scratch->data());
    std::fill(operands.begin(), operands.end(), nullptr);
  }
  // Sums of small integers are exact.
  EXPECT_EQ(d.read(out->data(), wanted.size() * 4), bytes_of_values(wanted));
}

TEST_P(DeviceConformance, ValuesComeFromOtherVirtualDevices) {
  const auto other = d.device->make_queue(1);
  const auto there = d.device->allocate(1, 4096, "a test");
  const auto here = d.device->allocate(0, 4096, "a test");
  for (unsigned turn = 0; turn < 20; ++turn) {
    const Bytes given = pattern(4096, turn);
    other->copy(given.data(), there->data(), 4096, CopyKind::HostToDevice);
    d.queue->wait_for(*other, other->record());
    d.queue->copy(there->data() + 64, here->data(), 4000, CopyKind::BetweenDevices);
    // The next value must not come before this one has gone.
    other->wait_for(*d.queue, d.queue->record());
    other->fill_with_zeros(there->data(), 4096);
    EXPECT_EQ(d.read(here->data(), 4000), Bytes(given.begin() + 64, given.begin() + 4064));
    other->wait(other->record(), {});
  }
}

/// Both queues work on one counter in turns; each turn needs the one before.
TEST_P(DeviceConformance, QueuesWaitForEventsOfEachOther) {
  const auto other = d.device->make_queue(0);
  const auto block = d.block(Bytes(2 * 4096));
  std::byte* here = block->data();
  std::byte* there = here + 4096;
  const Bytes given = pattern(4096, 11);
  std::vector<Bytes> received(40, Bytes(4096));
  for (std::size_t i = 0; i < received.size(); ++i) {
    const Queue::Event before = other->record();
    d.queue->wait_for(*other, before);
    d.queue->copy(given.data() + i, here, 4096 - i, CopyKind::HostToDevice);
    other->wait_for(*d.queue, d.queue->record());
    other->copy(here, there, 4096, CopyKind::WithinDevice);
    other->copy(there, received[i].data(), 4096 - i, CopyKind::DeviceToHost);
    EXPECT_GE(other->record(), before);
  }
  other->wait(other->record(), {});
  for (std::size_t i = 0; i < received.size(); ++i) {
    EXPECT_TRUE(std::equal(given.begin() + static_cast<std::ptrdiff_t>(i), given.end(),
                           received[i].begin()))
        << "turn " << i;
  }
  d.finish();
}

TEST_P(DeviceConformance, AWaitForAnEarlierEventIsEnoughForTheWorkBeforeIt) {
  const auto block = d.block(pattern(100, 1));
  Bytes first(100), second(100);
  d.queue->wait(0, {});
  d.queue->copy(block->data(), first.data(), 100, CopyKind::DeviceToHost);
  const Queue::Event event = d.queue->record();
  d.queue->fill_with_zeros(block->data(), 100);
  d.queue->copy(block->data(), second.data(), 100, CopyKind::DeviceToHost);
  EXPECT_GE(d.queue->record(), event);
  d.queue->wait(event, {});
  EXPECT_EQ(first, pattern(100, 1));
  d.finish();
  EXPECT_EQ(second, Bytes(100));
  d.queue->wait(event, {});
}

/// What fails is thrown by the call, or by one that waits for it.
TEST_P(DeviceConformance, AFailureIsThrownOnceAndTheQueueGoesOnAfterwards) {
  const auto kernel = d.target->prepare(range_check());
  const auto value = d.block(bytes_of_values(std::vector<std::int32_t>{1, 0, 5, 0}));
  const auto check = [&](int from, int to) {
    std::byte* const operands[] = {value->data() + 4 * from, value->data() + 4 * to};
    d.queue->run(*kernel, operands, nullptr);
  };
  bool has_failed = false;
  try {
    check(0, 1);  // goes well
    check(2, 3);  // 5 is out of range
    d.queue->fill_with_zeros(value->data(), 16);
    d.finish();
  } catch (const ApplicationFault& fault) {
    has_failed = true;
    EXPECT_NE(std::string(fault.what()).find("the test's value"), std::string::npos);
    EXPECT_NE(std::string(fault.what()).find("given 5"), std::string::npos) << fault.what();
  }
  EXPECT_TRUE(has_failed);
  d.queue->abandon();
  // What was done before stays, and nothing behind the failure was done.
  EXPECT_EQ(d.read(value->data(), 16), bytes_of_values(std::vector<std::int32_t>{1, 1, 5, 0}));
  d.queue->fill_with_zeros(value->data(), 16);
  EXPECT_EQ(d.read(value->data(), 16), Bytes(16));
}

TEST_P(DeviceConformance, AbandonedWorkTouchesNothingAnyMore) {
  const auto block = d.block(pattern(1000, 1));
  const auto other = d.device->make_queue(0);
  for (int turn = 0; turn < 20; ++turn) {
    Bytes received(1000), from_other(1000);
    d.queue->copy(block->data(), received.data(), 1000, CopyKind::DeviceToHost);
    other->wait_for(*d.queue, d.queue->record());
    other->copy(block->data(), from_other.data(), 1000, CopyKind::DeviceToHost);
    d.queue->abandon();
    other->abandon();
    const Bytes seen = received, seen_from_other = from_other;
    std::vector<Bytes> later(10, Bytes(10));
    for (Bytes& bytes : later) {
      d.queue->copy(block->data(), bytes.data(), 10, CopyKind::DeviceToHost);
      other->copy(block->data(), bytes.data(), 0, CopyKind::DeviceToHost);
    }
    d.finish();
    other->wait(other->record(), {});
    EXPECT_EQ(received, seen);
    EXPECT_EQ(from_other, seen_from_other);
  }
}

/// Work that waits for what failed fails as that did, so that nobody waits for ever.
TEST_P(DeviceConformance, AFailureReachesTheQueuesThatWaitForIt) {
  const auto other = d.device->make_queue(0);
  const auto kernel = d.target->prepare(range_check());
  const auto value = d.block(bytes_of_values(std::vector<std::int32_t>{5, 0}));
  std::byte* const operands[] = {value->data(), value->data() + 4};
  EXPECT_THROW(
      {
        d.queue->run(*kernel, operands, nullptr);
        other->wait_for(*d.queue, d.queue->record());
        other->fill_with_zeros(value->data(), 8);
        other->wait(other->record(), {});
      },
      ApplicationFault);
  d.queue->abandon();
  other->abandon();
  EXPECT_EQ(d.read(value->data(), 8), bytes_of_values(std::vector<std::int32_t>{5, 0}));
}

TEST_P(DeviceConformance, LongQueuesKeepTheirOrder) {
  const auto block = d.block(Bytes(8));
  constexpr std::int32_t count = 5000;
  std::vector<std::int32_t> seen(count);
  for (std::int32_t i = 0; i < count; ++i) {
    d.queue->write(block->data(), i);
    d.queue->copy(block->data(), reinterpret_cast<std::byte*>(&seen[static_cast<std::size_t>(i)]),
                  4, CopyKind::DeviceToHost);
  }
  d.finish();
  for (std::int32_t i = 0; i < count; ++i) ASSERT_EQ(seen[static_cast<std::size_t>(i)], i);
}

INSTANTIATE_TEST_SUITE_P(Devices, DeviceConformance, devices_under_test(), device_test_name);

}  // namespace
}  // namespace pando::testing
