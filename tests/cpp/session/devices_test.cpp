// Whole programs on several virtual devices, alone and on several replicas.
#include <gtest/gtest.h>

#include <algorithm>

#include "pando/base/error.hpp"
#include "pando/program/serialise.hpp"
#include "pando/session/session.hpp"
#include "tests/cpp/ir/ir_fixture.hpp"

namespace pando::testing {
namespace {

using Floats32 = std::vector<float>;

OpBuilder on(Graph& graph, std::int64_t device) {
  OpContext context;
  context.device = device;
  return {graph, context};
}

Tensor* copy_to(Graph& graph, Tensor* tensor, std::int64_t from, std::int64_t to) {
  return on(graph, from).make("DeviceCopy", {tensor}, {{"source", from}, {"destination", to}});
}

/// result = 4 (w + w): the sum on device 0, the product on device 5.
std::unique_ptr<Ir> two_devices() {
  op_registry();
  auto ir = std::make_unique<Ir>();
  Graph& main = ir->main_graph();
  Tensor* w = variable(main, "w", {1.0f, 2.0f, 3.0f}, {3});
  Tensor* sum = on(main, 0).make("Add", {w, w});
  OpBuilder second = on(main, 5);
  Tensor* product =
      second.make("Mul", {copy_to(main, sum, 0, 5), second.constant(4.0, DType::Float32)});
  store(main, product);
  return ir;
}

Floats32 run(Session& session, std::size_t count) {
  Floats32 result(count);
  session.run({}, {{reinterpret_cast<std::byte*>(result.data()), 1}});
  return result;
}

TEST(Devices, HaveStreamsOfTheirOwn) {
  Session session(*two_devices());
  const Program& program = session.program();
  EXPECT_EQ(program.devices, 2);
  const Function& main = program.functions[static_cast<std::size_t>(program.main_function)];
  EXPECT_EQ(main.devices, (std::vector<std::int32_t>{0, 1}));
  ASSERT_EQ(main.streams.size(), 2u);
  EXPECT_NE(session.disassembly().find("Wait for device 0"), std::string::npos);
  const std::string stored = serialise_program(program);
  const Program read = deserialise_program(stored);
  EXPECT_EQ(read.functions, program.functions);
  EXPECT_EQ(read.devices, program.devices);
  session.attach();
  session.weights_from_host();
  for (int i = 0; i < 100; ++i) ASSERT_EQ(run(session, 3), (Floats32{8.0f, 16.0f, 24.0f}));
}

TEST(Devices, OneDeviceHasNoStreams) {
  auto ir = two_devices();
  for (Op* op : ir->main_graph().ops()) {
    op->context.device = 5;
    if (op->kind_name() == "DeviceCopy") op->attributes.set("destination", std::int64_t{5});
  }
  const Session session(*ir);
  EXPECT_EQ(session.program().devices, 1);
  for (const Function& function : session.program().functions) {
    EXPECT_TRUE(function.streams.empty());
  }
}

/// Device 1 asks for entry `entry` of a remote buffer of two, then adds what it loaded to what
/// device 0 computed, and all replicas reduce the sum there.
std::unique_ptr<Ir> remote_program(std::int64_t replicas, std::int32_t entry) {
  op_registry();
  auto ir = std::make_unique<Ir>();
  ir->replication_factor = replicas;
  Graph& main = ir->main_graph();
  const TensorInfo info{DType::Float32, {3}, {}};
  ir->add_remote_buffer(info, 2);
  Tensor* w = variable(main, "w", {1.0f, 2.0f, 3.0f}, {3});
  OpBuilder second = on(main, 1);
  Tensor* init = second.make(
      "Init", {},
      {{"shape", info.shape}, {"dtype", info.dtype}, {"init_type", std::string("undef")}});
  Tensor* slot = second.constant(entry, DType::Int32);
  Tensor* loaded = second.make("RemoteLoad", {init, slot}, {{"buffer", std::int64_t{1}}});
  Tensor* moved = copy_to(main, loaded, 1, 0);
  Tensor* sum = on(main, 0).make("Add", {moved, w});
  Attributes all = {{"stride", std::int64_t{1}}, {"group_size", replicas}};
  all.set("op", std::string("add"));
  Tensor* reduced = second.make("ReplicatedAllReduce", {copy_to(main, sum, 0, 1)}, all);
  Tensor* handle = main.add_stream(main.unique_tensor_id("result"), info);
  ir->add_stream(*handle, StreamDirection::DeviceToHost);
  on(main, 0).op("HostStore", {copy_to(main, reduced, 1, 0)}, {{"stream", handle->id()}});
  return ir;
}

TEST(Devices, ReplicasHaveSeveralEach) {
  Session session(*remote_program(2, 1));
  session.attach();
  session.weights_from_host();
  for (int i = 0; i < 50; ++i) {
    ASSERT_EQ(run(session, 6), (Floats32{2.0f, 4.0f, 6.0f, 2.0f, 4.0f, 6.0f}));
  }
}

TEST(Devices, AnErrorOfOneEndsTheRun) {
  for (std::int64_t replicas : {1, 2}) {
    Session session(*remote_program(replicas, 7));
    session.attach();
    session.weights_from_host();
    for (int i = 0; i < 20; ++i) {
      const std::string error =
          error_of([&] { run(session, static_cast<std::size_t>(3 * replicas)); });
      ASSERT_NE(error.find("asked for entry 7"), std::string::npos) << error;
    }
  }
}

/// w plus all that `trips` iterations add on device 1: what device 0 doubles, w at first.
std::unique_ptr<Ir> loop_on_two_devices(std::int64_t trips) {
  op_registry();
  auto ir = std::make_unique<Ir>();
  Graph& main = ir->main_graph();
  const TensorInfo info{DType::Float32, {3}, {}};
  Graph& body = ir->create_graph("body");
  body.add_input(body.unique_tensor_id("iterator"), {DType::Int32, {}, {}});
  Tensor* condition = body.add_input(body.unique_tensor_id("condition"), {DType::Bool, {}, {}});
  Tensor* x = body.add_input(body.unique_tensor_id("x"), info);
  Tensor* sum = body.add_input(body.unique_tensor_id("sum"), info);
  Tensor* doubled = on(body, 0).make("Add", {x, x});
  body.mark_output(condition);
  body.mark_output(doubled);
  body.mark_output(on(body, 1).make("Add", {sum, copy_to(body, doubled, 0, 1)}));
  Tensor* w = variable(main, "w", {1.0f, 2.0f, 3.0f}, {3});
  OpBuilder ops(main, {});
  Op& loop = main.create_op(op_registry().get("Loop"),
                            {ops.constant(1, DType::Int32), ops.constant(1, DType::Bool), w, w},
                            {{"trip_count", trips}}, {}, {&body});
  store(main, loop.output(1));
  return ir;
}

TEST(Devices, LoopsCarrySignalsOverIterations) {
  float factor = 1.0f;
  for (std::int64_t trips = 0; trips <= 5; ++trips) {
    Session session(*loop_on_two_devices(trips));
    const Program& program = session.program();
    const auto carries = [](const Function& function) { return !function.carried_signals.empty(); };
    EXPECT_EQ(std::count_if(program.functions.begin(), program.functions.end(), carries), 1);
    EXPECT_EQ(deserialise_program(serialise_program(program)).functions, program.functions);
    EXPECT_NE(session.disassembly().find("times for the next iteration"), std::string::npos);
    session.attach();
    session.weights_from_host();
    for (int i = 0; i < 20; ++i) {
      ASSERT_EQ(run(session, 3), (Floats32{factor, 2.0f * factor, 3.0f * factor}));
    }
    factor = 2.0f * factor + 1.0f;
  }
}

TEST(Devices, AnInterruptEndsTheRun) {
  // It would take days.
  constexpr std::int64_t kTrips = std::int64_t{1} << 40;
  int asked = 0;
  SessionOptions options;
  options.should_stop = [&] { return ++asked == 3; };
  Session session(*loop_on_two_devices(kTrips), options);
  session.attach();
  session.weights_from_host();
  EXPECT_THROW(run(session, 3), Interrupted);
}

}  // namespace
}  // namespace pando::testing
