#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>

#include "pando/runtime/host_memory.hpp"

namespace pando {
namespace {

const std::int64_t kPage = sysconf(_SC_PAGESIZE);
const std::int64_t kBlockBytes = 64 * kPage;

TEST(HostMemory, DiscardsWholePagesOfAPartAlone) {
  HostMemory memory(kBlockBytes, "a test");
  std::fill_n(memory.data(), kBlockBytes, std::byte{7});
  EXPECT_EQ(memory.resident_bytes(), kBlockBytes);
  const std::int64_t from = 10 * kPage + 5, bytes = 20 * kPage;
  memory.discard(memory.data() + from, bytes);
  EXPECT_EQ(memory.resident_bytes(), kBlockBytes - 19 * kPage);
  for (std::int64_t i = 0; i < kBlockBytes; ++i) {
    if (i >= 11 * kPage && i < 30 * kPage) continue;
    ASSERT_EQ(memory.data()[i], std::byte{7}) << i;
  }
}

TEST(HostMemory, DiscardsNothingOfAPartOfPages) {
  HostMemory memory(kBlockBytes, "a test");
  std::fill_n(memory.data(), kBlockBytes, std::byte{7});
  for (const std::int64_t from : {std::int64_t{0}, std::int64_t{1}, kPage - 1}) {
    memory.discard(memory.data() + from, kPage - 1);
    memory.discard(memory.data() + from, 0);
  }
  EXPECT_TRUE(std::all_of(memory.data(), memory.data() + kBlockBytes,
                          [](std::byte b) { return b == std::byte{7}; }));
}

}  // namespace
}  // namespace pando
