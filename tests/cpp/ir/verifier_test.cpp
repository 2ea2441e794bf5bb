// Every rule of the verifier is broken once.
#include <gtest/gtest.h>

#include "pando/ir/verifier.hpp"
#include "tests/cpp/ir/ir_fixture.hpp"

namespace pando::testing {
namespace {

class VerifierTest : public ::testing::Test {
 protected:
  VerifierTest() {
    op_registry();
    x_ = main_.add_input("x", {DType::Float32, {2, 3}, {}});
    neg_ = &OpBuilder(main_, {}).op("Neg", {x_});
    abs_ = &OpBuilder(main_, {}).op("Abs", {neg_->output(0)});
  }

  void expect_fault(const std::string& part) {
    const std::string error = error_of([&] { verify(ir_, "here"); });
    EXPECT_NE(error.find(part), std::string::npos) << error;
    EXPECT_NE(error.find("after here"), std::string::npos) << error;
  }

  Ir ir_;
  Graph& main_ = ir_.main_graph();
  Tensor* x_;
  Op* neg_;
  Op* abs_;
};

TEST_F(VerifierTest, AcceptsWhatTheBuilderMakes) { verify(ir_); }

TEST_F(VerifierTest, WrongInfo) {
  neg_->output(0)->info.shape = {3, 2};
  expect_fault("wanted (2, 3) float32, given (3, 2) float32");
}

TEST_F(VerifierTest, Order) {
  main_.reorder({abs_, neg_});
  expect_fault("is used before it is made");
}

TEST_F(VerifierTest, MissingInput) {
  abs_->set_input(0, nullptr);
  expect_fault("Abs");
}

TEST_F(VerifierTest, UnknownAttribute) {
  abs_->attributes.set("axis", std::int64_t{1});
  expect_fault("there is no attribute 'axis'");
}

TEST_F(VerifierTest, AttributeType) {
  Op& op = OpBuilder(main_, {}).op("Reshape", {x_}, {{"shape", Ints{6}}});
  op.attributes.set("shape", std::int64_t{6});
  expect_fault("attribute 'shape' has the wrong type: 6");
  op.attributes.erase("shape");
  expect_fault("attribute 'shape' is missing");
}

TEST_F(VerifierTest, SameTensorIdInTwoGraphs) {
  ir_.create_graph("f").add_input("x", x_->info);
  expect_fault("two tensors 'x'");
}

TEST_F(VerifierTest, OutputOfAnotherGraph) {
  Graph& other = ir_.create_graph("f");
  other.set_outputs({x_});
  expect_fault("belongs to another graph");
}

TEST_F(VerifierTest, AfterAnOpOfAnotherGraph) {
  Graph& other = ir_.create_graph("f");
  Tensor* y = other.add_input("f/y", x_->info);
  abs_->run_after(OpBuilder(other, {}).op("Neg", {y}));
  expect_fault("`after`");
}

TEST_F(VerifierTest, DataOfTheWrongSize) {
  Tensor* v = variable(main_, "v", {1.0f}, {1});
  v->info.shape = {2};
  expect_fault("has 4 bytes of host data");
}

TEST_F(VerifierTest, DataOfEveryGroupOfReplicas) {
  ir_.replication_factor = 4;
  Tensor* v = variable(main_, "v", {1.0f, 2.0f}, {2});
  v->info.shape = {1};
  expect_fault("has 8 bytes of host data");
  v->set_settings({.groups = {0, 0, 1, 1}});
  verify(ir_);
  v->set_settings({.groups = {0, 1, 2, 3}});
  expect_fault("has 8 bytes of host data");
  v->set_settings({.groups = {0, 1, 2, 3}, .entry_per_replica = true});
  verify(ir_);
  v->info.shape = {4};
  expect_fault("has 8 bytes of host data");
}

TEST_F(VerifierTest, CallSiteAndCallee) {
  Graph& callee = ir_.create_graph("f");
  callee.add_input("f/y", x_->info);
  main_.create_op(op_registry().get("Call"), {x_}, {}, {}, {&callee});
  verify(ir_);
  callee.add_input("f/z", x_->info);
  expect_fault("wanted 2 inputs for graph 'f_subgraph(0)'");
}

TEST_F(VerifierTest, Recursion) {
  Graph& callee = ir_.create_graph("f");
  Graph& other = ir_.create_graph("g");
  Op& call = callee.create_op(op_registry().get("Call"), {}, {}, {}, {&other});
  other.create_op(op_registry().get("Call"), {}, {}, {}, {&ir_.create_graph("h")});
  verify(ir_);
  other.ops()[0]->called_graphs[0] = &callee;
  expect_fault(
      "graph 'f_subgraph(0)' calls itself: 'f_subgraph(0)', which calls 'g_subgraph(1)', "
      "which calls 'f_subgraph(0)'");
  call.called_graphs[0] = &callee;
  expect_fault("graph 'f_subgraph(0)' calls itself: 'f_subgraph(0)', which calls 'f_subgraph(0)'");
}

TEST_F(VerifierTest, UnknownRemoteBuffer) {
  ir_.add_remote_buffer(x_->info, 1);
  OpBuilder ops(main_, {});
  Op& op =
      ops.op("RemoteStore", {x_, ops.constant(0, DType::Int32)}, {{"buffer", std::int64_t{1}}});
  op.attributes.set("buffer", std::int64_t{9});
  expect_fault("there is no remote buffer 9");
}

}  // namespace
}  // namespace pando::testing
