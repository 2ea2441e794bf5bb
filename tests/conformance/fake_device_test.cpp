// That the fake device is as strange as the conformance tests need it.
#include "tests/conformance/fake_device.hpp"

#include <unistd.h>

#include <cerrno>
#include <functional>

#include "pando/base/error.hpp"
#include "tests/conformance/device_under_test.hpp"

namespace pando::testing {
namespace {

/// The system refuses with EFAULT what would be a crash in this process.
bool is_readable(const std::byte* address) {
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  const bool readable = write(ends[1], address, 1) == 1;
  EXPECT_TRUE(readable || errno == EFAULT);
  for (const int file : ends) close(file);
  return readable;
}

TEST(FakeDevice, KeepsItsMemoryFromTheHost) {
  DeviceUnderTest d("fake");
  const auto block = d.block(pattern(100, 1));
  EXPECT_FALSE(is_readable(block->data()));
  EXPECT_EQ(d.read(block->data(), 100), pattern(100, 1));
  EXPECT_TRUE(is_readable(d.device->allocate_host(100, "a test")->data()));
}

TEST(FakeDevice, DoesItsWorkLate) {
  DeviceUnderTest d("fake:1");
  const auto block = d.block(pattern(1, 1));
  int late = 0;
  for (int i = 0; i < 50; ++i) {
    Bytes received(1);
    d.queue->copy(block->data(), received.data(), 1, CopyKind::DeviceToHost);
    d.queue->abandon();  // drops what has not begun, so that nothing writes while this reads
    late += received[0] == std::byte{0};
    d.queue->copy(block->data(), received.data(), 1, CopyKind::DeviceToHost);
    d.finish();
    EXPECT_EQ(received, pattern(1, 1));
  }
  EXPECT_GT(late, 10);
}

TEST(FakeDevice, RefusesAddressesOfTheWrongMemory) {
  DeviceUnderTest d("fake");
  const auto block = d.block(pattern(100, 1));
  Bytes host(100);
  const auto is_refused = [&](const std::byte* from, std::byte* to, CopyKind kind) {
    d.queue->copy(from, to, 100, kind);
    try {
      d.finish();
    } catch (const RuntimeFault&) {
      d.queue->abandon();
      return true;
    }
    return false;
  };
  EXPECT_TRUE(is_refused(host.data(), block->data(), CopyKind::WithinDevice));
  EXPECT_TRUE(is_refused(block->data(), host.data(), CopyKind::HostToDevice));
  EXPECT_TRUE(is_refused(host.data(), block->data(), CopyKind::DeviceToHost));
  EXPECT_FALSE(is_refused(block->data(), host.data(), CopyKind::DeviceToHost));
  EXPECT_EQ(host, pattern(100, 1));
}

TEST(FakeDevice, RefusesMemoryOfAnotherVirtualDevice) {
  DeviceUnderTest d("fake");
  EXPECT_FALSE(d.target->devices_share_memory());
  const auto own = d.block(pattern(100, 1)), also_own = d.block(pattern(100, 2));
  const auto other = d.device->allocate(1, 100, "a test");
  KernelSpec spec;
  spec.kind = "Copy";
  spec.inputs = spec.outputs = {OperandDesc::contiguous(DType::Float32, {25})};
  const auto kernel = d.target->prepare(spec);
  const auto error_of_work = [&](const std::function<void()>& ask) -> std::string {
    ask();
    try {
      d.finish();
    } catch (const RuntimeFault& fault) {
      d.queue->abandon();
      return fault.what();
    }
    return "no error";
  };
  const auto run = [&](std::byte* from, std::byte* to) {
    return error_of_work([&] {
      std::byte* const operands[] = {from, to};
      d.queue->run(*kernel, operands, nullptr);
    });
  };
  const auto copy = [&](const std::byte* from, std::byte* to, CopyKind kind) {
    return error_of_work([&] { d.queue->copy(from, to, 100, kind); });
  };
  const std::string wanted =
      "virtual device 0 of the fake device was given memory of virtual device 1";
  EXPECT_EQ(run(own->data(), other->data()), wanted);
  EXPECT_EQ(run(other->data(), own->data()), wanted);
  EXPECT_EQ(copy(other->data(), own->data(), CopyKind::WithinDevice), wanted);
  EXPECT_EQ(copy(own->data(), other->data(), CopyKind::BetweenDevices),
            "virtual device 0 of the fake device was given its own memory as another one's");
  EXPECT_EQ(copy(other->data(), own->data(), CopyKind::BetweenDevices), "no error");
  EXPECT_EQ(run(also_own->data(), own->data()), "no error");
  EXPECT_EQ(d.read(own->data(), 100), pattern(100, 2));
}

TEST(FakeDevice, FailsWhereItIsToldAndOnlyThere) {
  DeviceUnderTest d("fake:1:2");
  const auto block = d.block(pattern(10, 1));  // item 0
  d.queue->fill_with_zeros(block->data(), 1);  // item 1
  d.queue->fill_with_zeros(block->data(), 2);
  d.queue->fill_with_zeros(block->data(), 3);
  try {
    d.finish();
    FAIL() << "it did not fail";
  } catch (const RuntimeFault& fault) {
    EXPECT_EQ(std::string(fault.what()),
              "the fake device failed at item 2 of its work (zeros in 2 bytes)");
  }
  d.queue->abandon();
  Bytes wanted = pattern(10, 1);
  wanted[0] = std::byte{0};
  EXPECT_EQ(d.read(block->data(), 10), wanted);
}

}  // namespace
}  // namespace pando::testing
