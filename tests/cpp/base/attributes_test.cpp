#include "pando/base/attributes.hpp"

#include <gtest/gtest.h>

#include "pando/base/byte_stream.hpp"

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

TEST(Attributes, AreReadBackFromBytes) {
  const Attributes attributes = {{"axis", Ints{1, -2}},
                                 {"flag", true},
                                 {"none", Texts{}},
                                 {"scale", 0.5},
                                 {"text", std::string("some")},
                                 {"type", DType::Float16},
                                 {"values", Floats{1.5, 2.5}},
                                 {"words", Texts{"", "a\n\"b\""}},
                                 {"zeros", std::string(2, '\0')}};
  ByteWriter writer("TESTFILE", 1);
  writer.attributes(attributes);
  const std::string bytes = std::move(writer).finish();
  ByteReader reader(bytes, "TESTFILE", 1, "a test");
  EXPECT_EQ(reader.attributes(), attributes);
  reader.finish();
}

}  // namespace
}  // namespace pando::testing
