// Which functions graphs that are called become.
#include <gtest/gtest.h>

#include "pando/backends/cpu/cpu_target.hpp"
#include "pando/compile/program_lowering.hpp"
#include "pando/steps/step_verifier.hpp"
#include "tests/cpp/ir/ir_fixture.hpp"

namespace pando::testing {
namespace {

TEST(CalledFunctions, AGraphThatIsCalledAndRunAsTheBodyOfALoopIsTwo) {
  op_registry();
  Ir ir;
  Graph& main = ir.main_graph();
  const TensorInfo counts{DType::Int32, {4}, {}};
  const std::int32_t zeros[4] = {};
  Tensor* v = main.add_variable("v", counts, HostArray::copy_of(zeros, sizeof zeros));
  Graph& body = ir.create_graph("body");
  body.add_input(body.unique_tensor_id("Iterator___"), {DType::Int32, {}, {}});
  body.mark_output(body.add_input(body.unique_tensor_id("LoopCond___"), {DType::Bool, {}, {}}));
  Tensor* x = body.add_input(body.unique_tensor_id("x"), counts, true);
  OpBuilder in_body(body, {});
  in_body.op("AddLhsInplace", {x, in_body.constant(1, DType::Int32)});
  OpBuilder ops(main, {});
  main.create_op(op_registry().get("Call"),
                 {ops.constant(0, DType::Int32), ops.constant(1, DType::Bool), v},
                 {{"modified", Ints{2}}}, {}, {&body});
  main.create_op(op_registry().get("Loop"), {nullptr, nullptr, v},
                 {{"trip_count", std::int64_t{3}}, {"modified", Ints{2}}}, {}, {&body});
  const auto target = make_cpu_target(1, {});
  const StepProgram steps = lower_program(ir, *target, 0, {});
  int loops = 0, others = 0;
  for (const StepFunction& function : steps.functions) {
    if (function.name.find("body") == std::string::npos) continue;
    ++(function.num_carried ? loops : others);
  }
  EXPECT_EQ(loops, 1);
  EXPECT_EQ(others, 1);
  EXPECT_NO_THROW(check_steps(steps));
}

}  // namespace
}  // namespace pando::testing
