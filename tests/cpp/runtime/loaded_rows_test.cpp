#include "pando/runtime/loaded_rows.hpp"

#include <gtest/gtest.h>

#include <array>

namespace pando {
namespace {

TEST(LoadedRows, PointersFollowTheirRowOnly) {
  std::array<std::byte, 64> memory{};
  std::byte* first = nullptr;
  std::byte* behind_first = nullptr;
  std::byte* second = nullptr;
  LoadedRows rows(2);
  rows.follow(0, 0, &first);
  rows.follow(0, 8, &behind_first);
  rows.follow(1, 4, &second);
  rows.move(0, memory.data());
  EXPECT_EQ(rows.place(0), memory.data());
  EXPECT_EQ(first, memory.data());
  EXPECT_EQ(behind_first, memory.data() + 8);
  EXPECT_EQ(second, nullptr);
  rows.move(1, memory.data() + 16);
  rows.move(0, memory.data() + 32);
  EXPECT_EQ(rows.place(1), memory.data() + 16);
  EXPECT_EQ(second, memory.data() + 20);
  EXPECT_EQ(first, memory.data() + 32);
  EXPECT_EQ(behind_first, memory.data() + 40);
}

}  // namespace
}  // namespace pando
