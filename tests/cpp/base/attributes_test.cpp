#include "pando/base/attributes.hpp"

#include <gtest/gtest.h>

namespace pando::testing {
namespace {

TEST(Attributes, AreSortedByNameAndTheLastOfEqualNamesCounts) {
  const Attributes attributes =
      Attributes::of({{"b", std::int64_t{2}}, {"a", true}, {"b", std::int64_t{3}}});
  EXPECT_EQ(attributes, (Attributes{{"a", true}, {"b", std::int64_t{3}}}));
  ASSERT_EQ(attributes.end() - attributes.begin(), 2);
  EXPECT_EQ(attributes.begin()->first, "a");
  EXPECT_TRUE(Attributes::of({}).empty());
  EXPECT_EQ(Attributes::of({}), Attributes());
}

TEST(Attributes, CopiesShareUntilOneChanges) {
  const Attributes first = {{"axis", std::int64_t{1}}, {"shape", Ints{2, 3}}};
  Attributes copy = first;
  EXPECT_EQ(&copy.ints("shape"), &first.ints("shape"));
  copy.set("axis", std::int64_t{2});
  copy.set("extra", 0.5);
  EXPECT_EQ(first.integer("axis"), 1);
  EXPECT_FALSE(first.has("extra"));
  EXPECT_EQ(copy.integer("axis"), 2);
  EXPECT_EQ(copy.number("extra"), 0.5);
  Attributes other = first;
  other.erase("shape");
  other.erase("absent");
  EXPECT_TRUE(first.has("shape"));
  EXPECT_EQ(other, (Attributes{{"axis", std::int64_t{1}}}));
  other.erase("axis");
  EXPECT_TRUE(other.empty());
}

}  // namespace
}  // namespace pando::testing
