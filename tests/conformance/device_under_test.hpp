// What the conformance tests run on: every kind of device that this build has, and the fake one.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "pando/session/device_table.hpp"
#include "tests/conformance/fake_device.hpp"

namespace pando::testing {

using Bytes = std::vector<std::byte>;

inline Bytes pattern(std::size_t bytes, unsigned seed) {
  Bytes result(bytes);
  for (std::size_t i = 0; i < bytes; ++i) {
    result[i] = static_cast<std::byte>(31 * i + i / 256 + 7 * seed + 1);
  }
  return result;
}

/// A device with its target and a queue; `device` is a device string.
struct DeviceUnderTest {
  explicit DeviceUnderTest(const std::string& name) {
    add_fake_device_kind();
    settings.num_threads = 2;
    kind = device_kind(name, settings);
    target = kind.make_target(settings);
    device = kind.make_device(settings, *target);
    queue = device->make_queue(0);
  }

  std::unique_ptr<MemoryBlock> block(const Bytes& bytes) {
    auto memory = device->allocate(0, static_cast<std::int64_t>(bytes.size()), "a test");
    queue->copy(bytes.data(), memory->data(), bytes.size(), CopyKind::HostToDevice);
    finish();
    return memory;
  }
  /// After all work of the queue.
  Bytes read(const std::byte* memory, std::size_t bytes) {
    Bytes result(bytes);
    queue->copy(memory, result.data(), bytes, CopyKind::DeviceToHost);
    finish();
    return result;
  }
  void finish() { queue->wait(queue->record(), {}); }

  DeviceSettings settings;
  DeviceKind kind;
  std::shared_ptr<Target> target;
  std::unique_ptr<Device> device;
  std::unique_ptr<Queue> queue;
};

/// Names of tests have letters, digits and underscores.
inline std::string device_test_name(const ::testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  for (char& letter : name) {
    if (letter == ':') letter = '_';
  }
  return name;
}

inline auto devices_under_test() { return ::testing::Values("cpu", "fake:1", "fake:2", "fake:3"); }

}  // namespace pando::testing
