// Programs that call functions of the host.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "pando/ops/host_call.hpp"
#include "pando/program/check.hpp"
#include "pando/session/session.hpp"
#include "pando/transforms/autodiff.hpp"
#include "tests/cpp/ir/ir_fixture.hpp"

namespace pando::testing {
namespace {

const TensorInfo kPair{DType::Float32, {2}, {}};
using Pair = std::vector<float>;
using Names = std::vector<std::string>;

/// v += f(v), of a variable that starts as [1, 2], and stores it.
struct CallingProgram {
  explicit CallingProgram(const TensorInfo& result = kPair) {
    op_registry();
    Graph& main = ir.main_graph();
    v = variable(main, "v", {1.0f, 2.0f}, {2});
    OpBuilder ops(main, {});
    const Op& call = ops.op("HostCall", {v}, host_call_attributes("f", {result}));
    store(main, ops.make("AddLhsInplace", {v, call.output(0)}));
  }

  Ir ir;
  Tensor* v = nullptr;
};

Pair run(Session& session) {
  Pair result(2);
  session.run({}, {{reinterpret_cast<std::byte*>(result.data()), 1}});
  return result;
}

std::unique_ptr<Session> session_of(const Ir& ir, std::function<bool()> should_stop = {}) {
  SessionOptions options;
  options.num_threads = 1;
  options.check_inplace_ambiguity = false;
  options.should_stop = std::move(should_stop);
  auto session = std::make_unique<Session>(ir, options);
  session->attach();
  session->weights_from_host();
  return session;
}

void fill(HostCall& call, float value) {
  const Pair values = {value, value};
  std::memcpy(call.output(0).data(), values.data(), call.output(0).size());
}

TEST(HostCall, AFunctionThatWasNotGivenIsNamed) {
  const CallingProgram program;
  const auto session = session_of(program.ir);
  EXPECT_EQ(session->host_functions().names(), Names{"f"});
  EXPECT_NE(error_of([&] { run(*session); }).find("calls the host function 'f'"),
            std::string::npos);
  const std::string error =
      error_of([&] { session->host_functions().set(std::make_shared<HostFunctionQueue>("g")); });
  EXPECT_NE(error.find("no host function 'g'"), std::string::npos) << error;
  EXPECT_NE(error.find("'f'"), std::string::npos) << error;
}

TEST(HostCall, AnErrorLeavesVariablesAndTheNextRunGoesOn) {
  const CallingProgram program;
  const auto session = session_of(program.ir);
  const auto queue = std::make_shared<HostFunctionQueue>("f");
  bool fails = false;
  const HostFunctionThread thread(queue, [&](HostCall& call) {
    if (fails) throw RuntimeFault("out of data");
    fill(call, 10.0f);
  });
  session->host_functions().set(queue);
  EXPECT_EQ(run(*session), (Pair{11.0f, 12.0f}));
  fails = true;
  EXPECT_NE(error_of([&] { run(*session); }).find("out of data"), std::string::npos);
  fails = false;
  EXPECT_EQ(run(*session), (Pair{21.0f, 22.0f}));
}

TEST(HostCall, ARunThatWaitsForItMayBeStopped) {
  const CallingProgram program;
  std::atomic<bool> has_begun = false, may_end = false, stops = true;
  const auto session = session_of(program.ir, [&] { return has_begun && stops; });
  const auto queue = std::make_shared<HostFunctionQueue>("f");
  const HostFunctionThread thread(queue, [&](HostCall& call) {
    has_begun = true;
    while (!may_end) std::this_thread::yield();
    fill(call, 1.0f);
  });
  session->host_functions().set(queue);
  EXPECT_THROW(run(*session), Interrupted);
  stops = false;
  may_end = true;
  EXPECT_EQ(run(*session), (Pair{2.0f, 3.0f}));
}

TEST(HostCall, AttributesThatDoNotFitAreRefused) {
  op_registry();
  Ir ir;
  OpBuilder ops(ir.main_graph(), {});
  const auto error = [&](const char* name, AttributeValue value) {
    Attributes attributes = host_call_attributes("f", {kPair, {DType::Int32, {}, {}}});
    attributes.set(name, std::move(value));
    return error_of([&] { ops.op("HostCall", {}, attributes); });
  };
  EXPECT_EQ(error("function", std::string("g")), "no error");
  EXPECT_NE(error("output_dtypes", std::string("float32")).find("1 dtypes"), std::string::npos);
  EXPECT_NE(error("output_dtypes", std::string("float32,int31")).find("int31"), std::string::npos);
  EXPECT_NE(error("output_ranks", Ints{1, 1}).find("ranks"), std::string::npos);
  EXPECT_NE(error("output_ranks", Ints{-1, 2}).find("ranks"), std::string::npos);
  EXPECT_NE(error("output_sizes", Ints{2, 3}).find("sizes"), std::string::npos);
  EXPECT_NE(error("output_sizes", Ints{-2}), "no error");
}

TEST(HostCall, AGradientThatIsNotGivenIsAnError) {
  op_registry();
  Ir ir;
  Graph& graph = ir.create_graph("graph");
  Tensor* x = graph.add_input(graph.unique_tensor_id("x"), kPair);
  OpBuilder ops(graph, {});
  graph.mark_output(ops.op("HostCall", {x}, host_call_attributes("f", {kPair})).output(0));
  const std::string error = error_of([&] { autodiff(graph, graph.outputs(), graph.inputs()); });
  EXPECT_NE(error.find("host function 'f' has no gradient"), std::string::npos) << error;
}

TEST(HostCall, ProgramsAreChecked) {
  const CallingProgram program;
  const Program sound = session_of(program.ir)->program();
  const auto error = [&](const std::function<void(Program&, Instruction&)>& change) {
    Program changed = sound;
    for (Function& function : changed.functions) {
      for (Instruction& in : function.instructions) {
        if (in.kind == Instruction::Kind::HostCall) change(changed, in);
      }
    }
    return error_of([&] { check_program(changed); });
  };
  EXPECT_EQ(error([](Program&, Instruction&) {}), "no error");
  EXPECT_NE(error([](Program&, Instruction& in) { in.target = 1; }).find("host call"),
            std::string::npos);
  EXPECT_NE(error([](Program&, Instruction& in) { in.operands.pop_back(); }), "no error");
  EXPECT_NE(error([](Program& p, Instruction&) { p.host_calls[0].inputs[0].shape = {1 << 20}; }),
            "no error");
  EXPECT_NE(error([](Program& p, Instruction&) {
              p.host_calls[0].outputs[0].strides = {2};
            }).find("gaps"),
            std::string::npos);
}

TEST(VariablesByName, MoveAlone) {
  op_registry();
  Ir ir;
  Graph& main = ir.main_graph();
  Tensor* v = variable(main, "v", {1.0f, 2.0f}, {2});
  Tensor* w = variable(main, "w", {5.0f, 6.0f}, {2});
  OpBuilder ops(main, {});
  ops.op("AddLhsInplace", {v, ops.constant(1.0, DType::Float32)});
  store(main, ops.make("AddLhsInplace", {w, ops.constant(1.0, DType::Float32)}));
  const auto session = session_of(ir);
  const auto value = [](const Tensor* variable) {
    float first = 0;
    std::memcpy(&first, variable->data->data, sizeof first);
    return first;
  };
  run(*session);
  session->weights_to_host(Names{"w"});
  EXPECT_EQ(value(v), 1.0f);
  EXPECT_EQ(value(w), 6.0f);
  const float new_value[] = {100.0f, 200.0f};
  std::memcpy(w->data->data, new_value, sizeof new_value);
  session->weights_from_host(Names{"w"});
  EXPECT_EQ(run(*session), (Pair{101.0f, 201.0f}));
  session->weights_to_host();
  EXPECT_EQ(value(v), 3.0f);
  const std::string error = error_of([&] { session->weights_to_host(Names{"v", "x"}); });
  EXPECT_NE(error.find("no variable 'x'"), std::string::npos) << error;
  EXPECT_NE(error.find("'v', 'w'"), std::string::npos) << error;
}

}  // namespace
}  // namespace pando::testing
