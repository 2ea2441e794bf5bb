#include "pando/base/shared_text.hpp"

#include <gtest/gtest.h>

#include "pando/base/error.hpp"

namespace pando::testing {
namespace {

TEST(SharedText, IsTheTextItWasGiven) {
  const SharedText nothing;
  EXPECT_TRUE(nothing.empty());
  EXPECT_EQ(nothing, "");
  EXPECT_EQ(SharedText(std::string()), nothing);
  SharedText name("scope/add");
  EXPECT_FALSE(name.empty());
  EXPECT_EQ(name.str().size(), 9u);
  EXPECT_EQ(str_cat(name, ":", 3), "scope/add:3");
  EXPECT_FALSE(name == "scope/sub");
  EXPECT_EQ(name, SharedText(std::string("scope/add")));
  const SharedText copy = name;
  name = "other";
  EXPECT_EQ(copy, std::string("scope/add"));
  EXPECT_EQ(name, "other");
}

TEST(SharedText, CopiesShareAndSoDoEqualTextsOfOnePool) {
  const SharedText first(std::string("a file"));
  SharedText copy;
  copy = first;
  EXPECT_TRUE(copy.is_shared_with(first));
  EXPECT_FALSE(SharedText(std::string("a file")).is_shared_with(first));
  SharedTexts texts;
  const SharedText pooled = texts.of("a file");
  EXPECT_TRUE(texts.of(std::string("a ") + "file").is_shared_with(pooled));
  EXPECT_FALSE(texts.of("b file").is_shared_with(pooled));
}

}  // namespace
}  // namespace pando::testing
