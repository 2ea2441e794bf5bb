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

TEST(Shape, CopiesOfASharedShapeShareIt) {
  SharedShape shape = {2, 3};
  const SharedShape copy = shape;
  EXPECT_EQ(&copy.get(), &shape.get());
  EXPECT_EQ(copy, (Shape{2, 3}));
  EXPECT_EQ(copy, SharedShape(Shape{2, 3}));
  EXPECT_NE(copy, (Shape{3, 2}));
  EXPECT_EQ(copy[1], 3);
  shape = {4};
  EXPECT_EQ(copy.size(), 2u);
  EXPECT_EQ(shape, (Shape{4}));
  shape = {};
  EXPECT_TRUE(shape.empty());
  EXPECT_EQ(shape, Shape());
  EXPECT_EQ(num_elements(copy), 6);
}

}  // namespace
}  // namespace pando
