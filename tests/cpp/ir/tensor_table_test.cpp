// Tensors by id: what was inserted is found, whatever was erased since.
#include "pando/ir/tensor_table.hpp"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "pando/base/error.hpp"
#include "pando/ir/graph.hpp"

namespace pando {
namespace {

TEST(TensorTable, IsEmptyAtFirst) {
  TensorTable table;
  EXPECT_EQ(table.find("x"), nullptr);
  EXPECT_EQ(table.size(), 0U);
  EXPECT_TRUE(table.all().empty());
  table.erase("x");
  EXPECT_EQ(table.size(), 0U);
}

TEST(TensorTable, RefusesATakenId) {
  Ir ir;
  Graph& one = ir.create_graph_with_id("one");
  Graph& other = ir.create_graph_with_id("other");
  Tensor* first = one.add_activation("x", {});
  Tensor* second = other.add_activation("x", {});
  TensorTable table;
  EXPECT_TRUE(table.insert(*first));
  EXPECT_FALSE(table.insert(*second));
  EXPECT_EQ(table.find("x"), first);
}

TEST(TensorTable, DoesWhatAMapDoes) {
  Ir ir;
  std::vector<Tensor*> tensors;
  for (int i = 0; i < 300; ++i) {
    tensors.push_back(ir.main_graph().add_activation(str_cat("t", i), {}));
  }
  std::minstd_rand random(7);
  TensorTable table;
  std::map<std::string, Tensor*> expected;
  for (int step = 0; step < 20'000; ++step) {
    Tensor& tensor = *tensors[random() % tensors.size()];
    if (random() % 2 == 0) {
      EXPECT_EQ(table.insert(tensor), expected.emplace(tensor.id(), &tensor).second);
    } else {
      table.erase(tensor.id());
      expected.erase(tensor.id());
    }
    ASSERT_EQ(table.size(), expected.size());
    const Tensor& looked_for = *tensors[random() % tensors.size()];
    const auto it = expected.find(looked_for.id());
    ASSERT_EQ(table.find(looked_for.id()), it == expected.end() ? nullptr : it->second);
  }
  std::map<std::string, Tensor*> all;
  for (Tensor* tensor : table.all()) all.emplace(tensor->id(), tensor);
  EXPECT_EQ(all, expected);
}

/// `is_copied`: by tensor, of 300.
void expect_copies(bool (*is_copied)(int)) {
  Ir ir, other;
  TensorTable originals;
  TensorMap<Tensor*> copies;
  std::map<std::string, Tensor*> expected;
  for (int i = 0; i < 300; ++i) {
    const std::string id = str_cat("t", i);
    Tensor* original = ir.main_graph().add_activation(id, {});
    originals.insert(*original);
    if (!is_copied(i)) continue;
    copies[original] = expected[id] = other.main_graph().add_activation(id, {});
  }
  TensorTable table;
  table.insert_copies(originals, copies);
  EXPECT_EQ(table.size(), expected.size());
  for (Tensor* original : originals.all()) {
    const auto it = expected.find(original->id());
    ASSERT_EQ(table.find(original->id()), it == expected.end() ? nullptr : it->second);
  }
  EXPECT_TRUE(table.insert(*other.main_graph().add_activation("another", {})));
}

TEST(TensorTable, FindsTheCopiesOfTheTensorsOfAnother) {
  expect_copies([](int) { return true; });
  expect_copies([](int tensor) { return tensor % 3 == 0; });
  expect_copies([](int) { return false; });
}

}  // namespace
}  // namespace pando
