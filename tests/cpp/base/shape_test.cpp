#include "pando/base/shape.hpp"

#include <gtest/gtest.h>

#include "pando/base/error.hpp"

namespace pando {
namespace {

constexpr std::int64_t kLarge = std::int64_t{1} << 62;

TEST(Shape, ElementsAreCountedOrRefused) {
  EXPECT_EQ(num_elements({}), 1);
  EXPECT_EQ(num_elements({2, 3, 4}), 24);
  EXPECT_EQ(num_elements({kLarge, 1}), kLarge);
  EXPECT_EQ(num_elements({kLarge, kLarge, 0}), 0);
  EXPECT_THROW(num_elements({kLarge, 2}), Error);
  EXPECT_THROW(num_elements({3, kLarge, kLarge}), Error);
}

TEST(Shape, StridesOfAnEmptyTensorAreDefined) {
  EXPECT_EQ(contiguous_strides({2, 3, 4}), (Strides{12, 4, 1}));
  EXPECT_EQ(contiguous_strides({0, kLarge, kLarge}).size(), 3u);
}

}  // namespace
}  // namespace pando
