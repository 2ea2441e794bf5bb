// Rewiring: outputs that change hands, lists of inputs that shrink, copies without connections.
#include <gtest/gtest.h>

#include "pando/base/error.hpp"
#include "pando/ir/graph_surgery.hpp"
#include "pando/ir/op_maker.hpp"
#include "pando/ir/text_printer.hpp"
#include "pando/ir/verifier.hpp"
#include "tests/cpp/ir/ir_fixture.hpp"

namespace pando::testing {
namespace {

class SurgeryTest : public ::testing::Test {
 protected:
  SurgeryTest() {
    op_registry();
    x_ = main_.add_input("x", {DType::Float32, {2, 3}, {}});
    neg_ = &OpBuilder(main_, {}).op("Neg", {x_});
    abs_ = &OpBuilder(main_, {}).op("Abs", {neg_->output(0)});
    verify(ir_);
  }

  Ir ir_;
  Graph& main_ = ir_.main_graph();
  Tensor* x_;
  Op* neg_;
  Op* abs_;
};

TEST_F(SurgeryTest, AnOutputChangesHands) {
  Tensor* result = abs_->output(0);
  Op& exp = OpBuilder(main_, {}).op("Exp", {x_});
  Tensor* unused = exp.output(0);
  EXPECT_NE(error_of([&] { exp.set_output(0, result); }).find("no other op makes"),
            std::string::npos);
  abs_->set_output(0, nullptr);
  EXPECT_EQ(result->producer(), nullptr);
  EXPECT_EQ(abs_->num_outputs(), 0);
  exp.set_output(0, result);
  EXPECT_EQ(result->producer(), &exp);
  EXPECT_EQ(unused->producer(), nullptr);
  main_.erase_ops({abs_});
  main_.erase_tensor(*unused);
  verify(ir_);
}

TEST_F(SurgeryTest, ACopyKeepsAnOrderAgainstCreation) {
  AfterEdges::set(*neg_, {abs_});
  const std::unique_ptr<Ir> copy = ir_.clone();
  const std::vector<Op*>& ops = copy->main_graph().ops();
  EXPECT_EQ(ops[0]->after(), (std::vector<Op*>{ops[1]}));
}

/// Every tensor and op of `ir` is found, and so is what is made in it.
void expect_all_found(Ir& ir) {
  verify(ir);
  for (Graph* graph : ir.graphs()) {
    EXPECT_EQ(graph->tensors().all().size(), graph->tensors().size());
    for (Tensor* tensor : graph->tensors().all()) {
      EXPECT_EQ(graph->find_tensor(tensor->id()), tensor);
      EXPECT_EQ(&tensor->graph(), graph);
    }
    for (Op* op : graph->ops()) EXPECT_EQ(graph->op_list().find(op->id()), op);
  }
  Graph& main = ir.main_graph();
  Tensor* source = main.tensors().sources().front();
  EXPECT_NE(main.unique_tensor_id(source->id()), source->id());
  Tensor* made = OpBuilder(main, {}).make("Abs", {source}, {}, "made in the copy");
  EXPECT_EQ(main.find_tensor(made->id()), made);
  verify(ir);
}

TEST_F(SurgeryTest, ACopyOutlivesWhatItIsACopyOf) {
  std::unique_ptr<Ir> original = program_with_everything();
  Graph& main = original->main_graph();
  Tensor* w = main.tensors().sources().front();
  main.set_insertion_point(main.op_list().first());
  OpBuilder(main, {}).op("Neg", {w}, {}, "made last, run first");
  main.set_insertion_point(nullptr);
  main.erase_ops({&OpBuilder(main, {}).op("Exp", {w}, {}, "erased")});
  const std::string text = print_ir(*original);
  const auto number_of_tensors = main.tensors().size();

  std::unique_ptr<Ir> first = original->clone();
  original.reset();
  EXPECT_EQ(print_ir(*first), text);
  EXPECT_EQ(first->main_graph().tensors().size(), number_of_tensors);
  EXPECT_EQ(first->main_graph().find_tensor("erased"), nullptr);
  const std::unique_ptr<Ir> second = first->clone();
  expect_all_found(*first);
  first.reset();
  EXPECT_EQ(print_ir(*second), text);
  expect_all_found(*second);
}

TEST_F(SurgeryTest, OrderSurvivesOpsThatAreErasedTogether) {
  OpBuilder ops(main_, {});
  Op& exp = ops.op("Exp", {abs_->output(0)});
  Op& relu = ops.op("Relu", {x_});
  Op& last = ops.op("Tanh", {x_});
  AfterEdges::set(*abs_, {neg_});
  AfterEdges::set(exp, {abs_});
  AfterEdges::set(relu, {&exp, neg_});
  main_.set_insertion_point(&last);
  main_.erase_ops({&exp, abs_});
  EXPECT_EQ(relu.after(), (std::vector<Op*>{neg_}));
  EXPECT_TRUE(neg_->output(0)->uses().empty());
  // What was inserted next still comes before the same op.
  Op& inserted = ops.op("Sqrt", {x_});
  EXPECT_EQ(main_.ops(), (std::vector<Op*>{neg_, &relu, &inserted, &last}));
  verify(ir_);
  Op& user = ops.op("Abs", {inserted.output(0)});
  EXPECT_NE(error_of([&] {
              main_.erase_ops({&inserted, &user});
            }).find("is used"),
            std::string::npos);
}

TEST_F(SurgeryTest, GapsAreFaultsUntilTheyAreFilled) {
  Tensor* first = abs_->output(0);
  Tensor* second = main_.add_activation("second", x_->info);
  abs_->set_output(0, nullptr);
  abs_->set_output(1, second);
  EXPECT_EQ(abs_->num_outputs(), 2);
  main_.erase_tensor(*first);
  EXPECT_NE(error_of([&] { verify(ir_); }).find("output 0 is not connected"), std::string::npos);
  // An op with a gap can be erased.
  main_.erase_ops({abs_});
  EXPECT_EQ(main_.find_tensor("second"), nullptr);
  verify(ir_);
}

TEST_F(SurgeryTest, OnlyActivationsOfTheGraphBecomeOutputs) {
  Tensor* other = ir_.create_graph("f").add_activation("other", x_->info);
  for (Tensor* wrong : {x_, other, neg_->output(0)}) {
    EXPECT_NE(error_of([&] { abs_->set_output(1, wrong); }).find("must be a tensor of its graph"),
              std::string::npos);
  }
  EXPECT_EQ(abs_->num_outputs(), 1);
}

TEST_F(SurgeryTest, InputsAreDisconnectedWhenTheListShrinks) {
  Op& add = OpBuilder(main_, {}).op("Add", {x_, neg_->output(0)});
  add.resize_inputs(1);
  EXPECT_EQ(add.num_inputs(), 1);
  EXPECT_EQ(neg_->output(0)->uses().size(), 1u);
  add.resize_inputs(2);
  EXPECT_EQ(add.input(1), nullptr);
  add.set_input(1, x_);
  verify(ir_);
}

TEST_F(SurgeryTest, ACopyIsConnectedToNothing) {
  Graph& target = ir_.create_graph("target");
  Tensor* input = target.add_input(target.unique_tensor_id("x"), x_->info);
  abs_->context.name = "scope/abs";
  AfterEdges::set(*abs_, {neg_});
  Op& copy = OpMaker(target).clone_unconnected(*abs_);
  EXPECT_GT(copy.id(), abs_->id());
  EXPECT_EQ(copy.kind_name(), "Abs");
  EXPECT_EQ(copy.context.name, "scope/abs");
  EXPECT_EQ(copy.num_inputs() + copy.num_outputs(), 0);
  EXPECT_TRUE(copy.after().empty());
  EXPECT_EQ(target.op_list().find(copy.id()), &copy);
  copy.set_input(0, input);
  copy.add_output(target.unique_tensor_id("y"), input->info);
  verify(ir_);
}

TEST_F(SurgeryTest, AnInputThatIsUsedStays) {
  Tensor* y = main_.add_input("y", x_->info);
  Tensor* z = main_.add_input("z", x_->info);
  EXPECT_NE(error_of([&] { remove_input(main_, 0); }).find("that is used"), std::string::npos);
  EXPECT_NE(error_of([&] { main_.erase_tensor(*x_); }).find("without uses"), std::string::npos);
  EXPECT_EQ(main_.inputs(), (std::vector<Tensor*>{x_, y, z}));
  remove_input(main_, 1);
  EXPECT_EQ(main_.inputs(), (std::vector<Tensor*>{x_, z}));
  main_.erase_tensor(*z);
  EXPECT_EQ(main_.inputs(), (std::vector<Tensor*>{x_}));
  for (Tensor* erased : {y, z}) {
    EXPECT_EQ(main_.find_tensor(erased->id()), nullptr);
    EXPECT_EQ(&erased->graph(), &ir_.erased_graph());
  }
  verify(ir_);
}

TEST_F(SurgeryTest, AnIdIsTakenOnce) {
  const std::vector<Op*> before = main_.ops();
  EXPECT_NE(error_of([&] {
              OpMaker(main_).restore(abs_->def(), neg_->id(), {x_}, {});
            }).find(str_cat("an op with id ", neg_->id(), " exists")),
            std::string::npos);
  EXPECT_EQ(main_.ops(), before);
  EXPECT_EQ(main_.op_list().find(neg_->id()), neg_);
  verify(ir_);
}

TEST_F(SurgeryTest, OnlyInputsAreTakenByReference) {
  EXPECT_FALSE(x_->is_by_ref());
  x_->set_by_ref(true);
  EXPECT_TRUE(x_->is_by_ref());
  Tensor* made = neg_->output(0);
  EXPECT_NE(error_of([&] { made->set_by_ref(true); }).find("only an input"), std::string::npos);
  EXPECT_FALSE(made->is_by_ref());
}

TEST_F(SurgeryTest, CallSitesMayWaitForTheirArguments) {
  Graph& callee = ir_.create_graph("callee");
  Tensor* a = callee.add_input(callee.unique_tensor_id("a"), x_->info);
  callee.mark_output(OpBuilder(callee, {}).make("Neg", {a}));
  Op& call = main_.create_op(op_registry().get("Call"), {nullptr}, {}, {}, {&callee});
  EXPECT_EQ(call.output(0)->shape(), (Shape{2, 3}));
  call.set_input(0, x_);
  verify(ir_);
}

}  // namespace
}  // namespace pando::testing
