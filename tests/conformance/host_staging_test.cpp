// Transfers through the host's memory, on every kind of device.
#include "pando/runtime/host_staging.hpp"

#include <algorithm>

#include "tests/conformance/device_under_test.hpp"

namespace pando::testing {
namespace {

class HostStagingConformance : public ::testing::TestWithParam<std::string> {
 protected:
  DeviceUnderTest d{GetParam()};
};

constexpr std::size_t kStagedBytes = 1000;

TEST_P(HostStagingConformance, ItsRoomIsNotGivenAgainWhileACopyReadsIt) {
  HostStaging staging(*d.device);
  const auto block = d.block(Bytes(50 * kStagedBytes));
  for (unsigned i = 0; i < 50; ++i) {
    // Growing takes another block.
    const std::size_t bytes = kStagedBytes / 2 + 10 * i;
    const Bytes given = pattern(bytes, i);
    std::copy(given.begin(), given.end(), staging.room(bytes, {}));
    staging.copy_to(*d.queue, block->data() + i * kStagedBytes, bytes);
  }
  for (unsigned i = 0; i < 50; ++i) {
    const std::size_t bytes = kStagedBytes / 2 + 10 * i;
    EXPECT_EQ(d.read(block->data() + i * kStagedBytes, bytes), pattern(bytes, i)) << i;
  }
}

TEST_P(HostStagingConformance, ReadsWhatTheQueueHasWrittenByThen) {
  HostStaging staging(*d.device);
  const auto block = d.device->allocate(0, kStagedBytes, "a test");
  for (unsigned i = 0; i < 50; ++i) {
    const Bytes given = pattern(kStagedBytes, i);
    d.queue->copy(given.data(), block->data(), kStagedBytes, CopyKind::HostToDevice);
    const std::byte* read = staging.read(*d.queue, block->data(), kStagedBytes, {});
    EXPECT_TRUE(std::equal(given.begin(), given.end(), read)) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, HostStagingConformance, devices_under_test(), device_test_name);

}  // namespace
}  // namespace pando::testing
