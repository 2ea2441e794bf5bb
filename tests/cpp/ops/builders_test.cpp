// Typed builders make what the builder by name makes.
#include "pando/ops/builders.hpp"

#include <gtest/gtest.h>

#include <type_traits>

#include "pando/base/error.hpp"
#include "pando/ir/text_printer.hpp"
#include "pando/ops/ops.hpp"

namespace pando::testing {
namespace {

/// Two programs with the same inputs: one for the typed builders, one for the builder by name.
class TypedBuilders : public ::testing::Test {
 protected:
  struct Program {
    Ir ir;
    Tensor* matrix = input("matrix", {DType::Float32, {4, 4}, {}});
    Tensor* row = input("row", {DType::Float32, {4}, {}});
    OpBuilder builder{ir.main_graph(), {}};

    Program() { op_registry(); }
    Tensor* input(const std::string& name, const TensorInfo& info) {
      return ir.main_graph().add_input(name, info);
    }
  };

  void expect_equal() const { EXPECT_EQ(print_ir(typed_.ir), print_ir(plain_.ir)); }

  Program typed_, plain_;
};

TEST_F(TypedBuilders, InputsAreArgumentsAndResultsAreTensors) {
  Tensor* sum = ops::add(typed_.builder, ops::mat_mul(typed_.builder, typed_.matrix, typed_.matrix),
                         typed_.row);
  typed_.ir.main_graph().mark_output(ops::gelu(typed_.builder, sum, "activated"));

  Tensor* product = plain_.builder.make("MatMul", {plain_.matrix, plain_.matrix});
  Tensor* plain_sum = plain_.builder.make("Add", {product, plain_.row});
  plain_.ir.main_graph().mark_output(plain_.builder.make("Gelu", {plain_sum}, {}, "activated"));
  expect_equal();
}

TEST_F(TypedBuilders, AttributesHaveTypes) {
  ops::softmax(typed_.builder, typed_.matrix, {.axis = 1});
  ops::reduce_sum(typed_.builder, typed_.matrix, {.axes = Ints{0}, .keepdims = true});
  ops::init(typed_.builder, {.shape = Ints{2}, .dtype = DType::Int32, .init_type = "undef"});

  plain_.builder.make("Softmax", {plain_.matrix}, {{"axis", std::int64_t{1}}});
  plain_.builder.make("ReduceSum", {plain_.matrix}, {{"axes", Ints{0}}, {"keepdims", true}});
  plain_.builder.make(
      "Init", {},
      {{"shape", Ints{2}}, {"dtype", DType::Int32}, {"init_type", std::string("undef")}});
  expect_equal();
}

TEST_F(TypedBuilders, OptionalAttributesAreAbsentUnlessGiven) {
  const ops::BuiltOp with =
      ops::mat_mul(typed_.builder, typed_.matrix, typed_.matrix, {.output_type = DType::Float16});
  const ops::BuiltOp without = ops::mat_mul(typed_.builder, typed_.matrix, typed_.matrix);
  EXPECT_EQ(with->output(0)->dtype(), DType::Float16);
  EXPECT_TRUE(without->attributes.empty());
  // An optional input that is left out is no input.
  EXPECT_EQ(without->num_inputs(), 2);

  plain_.builder.make("MatMul", {plain_.matrix, plain_.matrix}, {{"output_type", DType::Float16}});
  plain_.builder.make("MatMul", {plain_.matrix, plain_.matrix});
  expect_equal();
}

TEST_F(TypedBuilders, InputsMayBeUnconnectedOrAnyNumber) {
  ops::adam_updater(typed_.builder, nullptr, typed_.row, typed_.row,
                    {.mode = "AdamNoBias", .epsilon = 1e-5});
  ops::sum(typed_.builder, {typed_.row, typed_.row, typed_.row});

  plain_.builder.make("AdamUpdater", {nullptr, plain_.row, plain_.row},
                      {{"mode", std::string("AdamNoBias")}, {"epsilon", 1e-5}});
  plain_.builder.make("Sum", {plain_.row, plain_.row, plain_.row});
  expect_equal();
}

TEST_F(TypedBuilders, CalledGraphsAreArguments) {
  const auto callee = [](Program& program) -> Graph& {
    Graph& graph = program.ir.create_graph("callee");
    graph.mark_output(graph.add_input(graph.unique_tensor_id("x"), program.row->info));
    return graph;
  };
  ops::call(typed_.builder, callee(typed_), {typed_.row}, {.modified = Ints{0}});
  plain_.ir.main_graph().create_op(op_registry().get("Call"), {plain_.row}, {{"modified", Ints{0}}},
                                   {}, {&callee(plain_)});
  expect_equal();
}

TEST_F(TypedBuilders, WhatIsWrongIsRefusedAsEver) {
  EXPECT_THROW(ops::softmax(typed_.builder, typed_.matrix, {.axis = 2}), Error);
  EXPECT_EQ(typed_.ir.main_graph().op_list().size(), 0U);
  static_assert(!std::is_default_constructible_v<ops::SoftmaxAttributes>,
                "an attribute that is required has no default");
  static_assert(std::is_default_constructible_v<ops::MatMulAttributes>);
}

}  // namespace
}  // namespace pando::testing
