#include "pando/runtime/staging_pool.hpp"

#include <gtest/gtest.h>

namespace pando {
namespace {

constexpr std::size_t kPage = 4096;

TEST(StagingPool, MemoryThatWasGivenBackIsUsedAgain) {
  StagingPool pool(8 * kPage);
  auto copy = pool.take(3 * kPage, 1);
  const std::byte* const memory = copy->memory.get();
  pool.give_back(copy);
  EXPECT_EQ(copy, nullptr);
  EXPECT_EQ(pool.take(2 * kPage, 1)->memory.get(), memory);
}

TEST(StagingPool, AMuchLargerSpareIsKeptForLargerValues) {
  StagingPool pool(8 * kPage);
  auto large = pool.take(4 * kPage, 1);
  const std::byte* const memory = large->memory.get();
  pool.give_back(large);
  const auto small = pool.take(1, 1);
  EXPECT_EQ(small->bytes, kPage);
  EXPECT_EQ(pool.take(3 * kPage, 1)->memory.get(), memory);
}

TEST(StagingPool, RoomIsCountedInWholePages) {
  StagingPool pool(2 * kPage);
  EXPECT_TRUE(pool.has_room(2 * kPage));
  EXPECT_FALSE(pool.has_room(2 * kPage + 1));
  auto copy = pool.take(1, 1);
  EXPECT_TRUE(pool.has_room(kPage));
  EXPECT_FALSE(pool.has_room(kPage + 1));
  pool.give_back(copy);
  EXPECT_TRUE(pool.has_room(2 * kPage));
}

TEST(StagingPool, MemoryIsNotSpareWhileALoadStillReadsIt) {
  StagingPool pool(2 * kPage);
  auto store = pool.take(2 * kPage, 1);
  auto load = store;
  pool.give_back(store);
  EXPECT_FALSE(pool.has_room(1));
  pool.give_back(load);
  EXPECT_TRUE(pool.has_room(2 * kPage));
}

}  // namespace
}  // namespace pando
