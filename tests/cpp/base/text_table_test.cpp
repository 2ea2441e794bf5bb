// Tables of texts: what they hold and what they refuse.
#include "pando/base/text_table.hpp"

#include <gtest/gtest.h>

#include "pando/program/program.hpp"

namespace pando::testing {
namespace {

TEST(TextTable, HoldsWhatWasAdded) {
  const std::vector<std::string> texts = {"", "MatMul", "", "a text that no string holds in place",
                                          "x"};
  TextTable table;
  for (std::size_t i = 0; i < texts.size(); ++i) EXPECT_EQ(table.add(texts[i]), i);
  ASSERT_EQ(table.size(), texts.size());
  const TextTable again(table.bytes(), table.ends());
  EXPECT_EQ(again, table);
  for (std::size_t i = 0; i < texts.size(); ++i) {
    EXPECT_EQ(again[static_cast<TextTable::Index>(i)], texts[i]);
  }
}

TEST(TextTable, RefusesEndsThatLeadOutside) {
  EXPECT_NO_THROW(TextTable("abc", {1, 1, 3}));
  EXPECT_NO_THROW(TextTable("", {}));
  EXPECT_THROW(TextTable("abc", {2, 1, 3}), Error) << "descending";
  EXPECT_THROW(TextTable("abc", {1, 4}), Error) << "past the end";
  EXPECT_THROW(TextTable("abc", {1, 2}), Error) << "bytes of no text";
  EXPECT_THROW(TextTable("abc", {}), Error);
}

TEST(SourceTable, RefusesTextsThatAreNotThere) {
  TextTable texts;
  texts.add("op");
  texts.add("model.py:3");
  const SourceTable table = SourceTable::of(texts, {{0, 1, 1}});
  EXPECT_EQ(table[0].op, "op");
  EXPECT_EQ(table[0].location, "model.py:3");
  EXPECT_THROW(SourceTable::of(texts, {{2, 0, 0}}), Error);
  EXPECT_THROW(SourceTable::of(texts, {{0, 2, 0}}), Error);
  EXPECT_THROW(SourceTable::of(texts, {{0, 0, 2}}), Error);
}

TEST(LiveTensorTable, RefusesTextsThatAreNotThere) {
  LiveTensorTable table;
  table.add({"x", 64, "model.py:3", 1});
  table.add({"y", 32, "", 0});
  const LiveTensorTable again = LiveTensorTable::of(table.texts(), table.entries());
  EXPECT_EQ(again, table);
  EXPECT_EQ(again[0].name, "x");
  EXPECT_EQ(again[0].depth, 1);
  EXPECT_EQ(again.all()[1].bytes, 32);
  EXPECT_THROW(LiveTensorTable::of(table.texts(), {{64, 4, 0}}), Error);
  EXPECT_THROW(LiveTensorTable::of(table.texts(), {{64, 0, 4}}), Error);
}

}  // namespace
}  // namespace pando::testing
