// What stops a session: the user, a memory limit, a value out of range. And that it goes on after.
#include "pando/session/session.hpp"

#include <gtest/gtest.h>

#include <cstring>

#include "pando/base/error.hpp"
#include "tests/cpp/ir/ir_fixture.hpp"
#include "tests/oracle/array.hpp"

namespace pando::testing {
namespace {

constexpr std::int64_t kForYears = 1'000'000'000'000'000;
const TensorInfo kCounts{DType::Int32, {4}, {}};

/// main: repeat `count` times: v += 1, w += 2.
class CountingProgram {
 public:
  explicit CountingProgram(std::int64_t count) {
    op_registry();
    Graph& main = ir.main_graph();
    const std::int32_t zeros[4] = {};
    v = main.add_variable("v", kCounts, HostArray::copy_of(zeros, sizeof zeros));
    w = main.add_variable("w", kCounts, HostArray::copy_of(zeros, sizeof zeros));
    Graph& body = ir.create_graph("body");
    body.add_input(body.unique_tensor_id("Iterator___"), {DType::Int32, {}, {}});
    body.mark_output(body.add_input(body.unique_tensor_id("LoopCond___"), {DType::Bool, {}, {}}));
    OpBuilder ops(body, {});
    for (const double step : {1.0, 2.0}) {
      Tensor* input = body.add_input(body.unique_tensor_id("x"), kCounts, true);
      ops.op("AddLhsInplace", {input, ops.constant(step, DType::Int32)});
    }
    main.create_op(op_registry().get("Loop"), {nullptr, nullptr, v, w},
                   {{"trip_count", count}, {"modified", Ints{2, 3}}}, {}, {&body});
  }

  std::vector<std::int32_t> values(const Tensor* variable) const {
    std::vector<std::int32_t> result(4);
    std::memcpy(result.data(), variable->data->data, variable->data->bytes);
    return result;
  }

  Ir ir;
  Tensor* v = nullptr;
  Tensor* w = nullptr;
};

std::vector<std::int32_t> four_times(std::int32_t value) {
  return std::vector<std::int32_t>(4, value);
}

TEST(Session, ShouldStopEndsARunBetweenInstructionsAndTheWeightsStay) {
  CountingProgram program(kForYears);
  int polls = 0;
  SessionOptions options;
  options.num_threads = 1;
  options.should_stop = [&] { return ++polls % 2 == 0; };
  Session session(program.ir, options);
  session.attach();
  session.weights_from_host();
  std::int32_t last = 0;
  for (int run = 1; run <= 2; ++run) {
    EXPECT_THROW(session.run({}, {}), Interrupted);
    EXPECT_EQ(polls, 2 * run);
    session.weights_to_host();
    const std::int32_t v = program.values(program.v)[0];
    const std::int32_t w = program.values(program.w)[0];
    EXPECT_EQ(program.values(program.v), four_times(v));
    EXPECT_EQ(program.values(program.w), four_times(w));
    // Each interrupt may have fallen between the two updates of a step.
    EXPECT_TRUE(w % 2 == 0 && w <= 2 * v && w >= 2 * v - 2 * run) << v << " and " << w;
    EXPECT_GT(v, last);
    last = v;
  }
  EXPECT_TRUE(session.is_attached());

  CountingProgram rest(3);
  std::memcpy(rest.v->data->data, program.v->data->data, rest.v->data->bytes);
  Session next(rest.ir);
  next.attach();
  next.weights_from_host();
  next.run({}, {});
  next.weights_to_host();
  EXPECT_EQ(rest.values(rest.v), four_times(last + 3));
  EXPECT_EQ(rest.values(rest.w), four_times(6));
}

TEST(Session, VariablesComeBackAsTheSessionDetaches) {
  CountingProgram program(3);
  Session session(program.ir, {});
  EXPECT_THROW(session.weights_to_host(std::nullopt, Session::Afterwards::Detach), ValueError);
  for (const std::int32_t steps : {3, 6}) {
    session.attach();
    session.weights_from_host();
    session.run({}, {});
    session.weights_to_host(std::nullopt, Session::Afterwards::Detach);
    EXPECT_FALSE(session.is_attached());
    EXPECT_EQ(program.values(program.v), four_times(steps));
    EXPECT_EQ(program.values(program.w), four_times(2 * steps));
  }
}

TEST(Session, NothingTakesTheOutputsOfTheMainGraph) {
  op_registry();
  Ir ir;
  Graph& main = ir.main_graph();
  Tensor* v = variable(main, "v", {1.0F, 2.0F}, {2});
  Tensor* w = variable(main, "w", {0.0F, 0.0F}, {2});
  OpBuilder ops(main, {});
  Tensor* sum = ops.make("Add", {v, v});
  ops.op("CopyVarUpdate", {w, sum});
  main.mark_output(sum);
  main.mark_output(v);
  Session session(ir, {});
  session.attach();
  session.weights_from_host();
  session.run({}, {});
  session.weights_to_host();
  EXPECT_EQ(oracle::decode(w->data->data, DType::Float32, 2),
            (std::vector<oracle::Number>{2.0L, 4.0L}));
}

TEST(Session, ProgramsBeyondTheMemoryLimitAreRefusedWithWhatIsAliveAtThePeak) {
  Ir ir;
  op_registry();
  Graph& main = ir.main_graph();
  Tensor* v = variable(main, "v", std::vector<float>(1000, 1.0F), {1000});
  OpBuilder ops(main, {});
  Tensor* sum = ops.make("ReduceSum",
                         {ops.make("CumSum", {v}, {{"axis", std::int64_t{0}}, {"reverse", false}})},
                         {{"axes", Ints{0}}, {"keepdims", false}});
  store(main, sum);
  const Session fitting(ir);
  const MemoryReport& memory = fitting.program().memory;
  SessionOptions options;
  options.memory_limit_bytes = memory.persistent_bytes + memory.peak_frame_bytes;
  Session exact(ir, options);
  --options.memory_limit_bytes;
  try {
    Session refused(ir, options);
    FAIL() << "the program was not refused";
  } catch (const OutOfMemory& error) {
    EXPECT_NE(std::string(error.what()).find(error.summary()), std::string::npos);
    EXPECT_NE(error.summary().find("4000 bytes  CumSum_out"), std::string::npos) << error.summary();
    EXPECT_NE(error.summary().find(str_cat("constants): ", memory.persistent_bytes, " bytes")),
              std::string::npos)
        << error.summary();
  }
}

TEST(Session, AKernelDoesNotOverwriteAnOperandThatItReadsTwice) {
  op_registry();
  Ir ir;
  OpBuilder ops(ir.main_graph(), {});
  Tensor* w = variable(ir.main_graph(), "w", {1, 2, 3}, {3});
  Tensor* doubled = ops.make("Add", {w, w});
  const std::vector<std::int32_t> rows = {0, 0, 2};
  Tensor* indices = ops.constant({DType::Int32, {3}, {}}, rows.data());
  // Dies in an op that may run in place on its third input.
  store(ir.main_graph(), ops.make("ScatterReduce", {doubled, indices, doubled},
                                  {{"reduction", std::string("sum")}, {"axis", std::int64_t{0}}}));
  Session session(ir);
  session.attach();
  session.weights_from_host();
  std::vector<float> result(3);
  session.run({}, {{reinterpret_cast<std::byte*>(result.data()), 1}});
  EXPECT_EQ(result, (std::vector<float>{2 + 2 + 4, 4, 6 + 6}));
}

TEST(Session, SizesBeyondTheAddressSpaceAreRefusedWhenATensorIsMade) {
  Ir ir;
  op_registry();
  constexpr std::int64_t kHuge = std::int64_t{1} << 40;
  Graph& main = ir.main_graph();
  EXPECT_THROW(main.add_input("x", {DType::Float32, {kHuge, kHuge}, {}}), OutOfMemory);
  EXPECT_THROW(main.add_input("x", {DType::Int8, {(std::int64_t{1} << 47) + 1}, {}}), OutOfMemory);
  EXPECT_THROW(main.add_input("x", {DType::Int8, {2, -1}, {}}), ValueError);
  EXPECT_EQ(main.find_tensor("x"), nullptr);
  Tensor* column = main.add_input("column", {DType::Int8, {kHuge, 1}, {}});
  Tensor* row = main.add_input("row", {DType::Int8, {1, kHuge}, {}});
  EXPECT_THROW(OpBuilder(main, {}).make("Add", {column, row}), OutOfMemory);
  EXPECT_TRUE(main.ops().empty());
  EXPECT_TRUE(column->uses().empty());
  EXPECT_THROW(ir.add_remote_buffer({DType::Float32, {kHuge}, {}}, kHuge), OutOfMemory);
  // No elements take no memory, whatever the other sizes are.
  main.add_input("empty", {DType::Float32, {kHuge, kHuge, 0}, {}});
}

TEST(Session, AScaleOutOfRangeStopsTheRunAndTheNextOneGoesOn) {
  Ir ir;
  op_registry();
  Graph& main = ir.main_graph();
  const std::int32_t high = 32;
  Tensor* scale = main.add_variable("s", {DType::Int32, {}, {}}, HostArray::copy_of(&high, 4));
  Tensor* x = variable(main, "x", {1.0F, 2.0F}, {2});
  OpBuilder ops(main, {});
  Tensor* y = ops.make("Pow2ScaleThenCast", {x, scale}, {{"dtype", DType::Float8_143}});
  store(main, ops.make("CastThenPow2Scale", {y, scale}, {{"dtype", DType::Float32}}));
  Session session(ir);
  std::vector<float> result(2);
  const StreamBuffer out{reinterpret_cast<std::byte*>(result.data()), 1};
  const auto run_with = [&](std::int32_t value) {
    std::memcpy(scale->data->data, &value, sizeof value);
    session.weights_from_host();
    session.run({}, {out});
  };
  session.attach();
  for (const std::int32_t bad : {-33, 32}) {
    EXPECT_THROW(run_with(bad), ApplicationFault);
    run_with(1);
    EXPECT_EQ(result, (std::vector<float>{4.0F, 8.0F}));
  }
}

/// main: repeat three times: load a value of `shape` and store it.
std::unique_ptr<Ir> copying_program(const Shape& shape) {
  op_registry();
  auto ir = std::make_unique<Ir>();
  Graph& main = ir->main_graph();
  const TensorInfo info{DType::Float32, shape, {}};
  Tensor* in = main.add_stream("in", info);
  Tensor* out = main.add_stream("out", info);
  ir->add_stream(*in, StreamDirection::HostToDevice);
  ir->add_stream(*out, StreamDirection::DeviceToHost);
  Graph& body = ir->create_graph("body");
  body.add_input(body.unique_tensor_id("Iterator___"), {DType::Int32, {}, {}});
  body.mark_output(body.add_input(body.unique_tensor_id("LoopCond___"), {DType::Bool, {}, {}}));
  OpBuilder ops(body, {});
  Tensor* init = ops.make(
      "Init", {},
      {{"shape", Ints(shape)}, {"dtype", info.dtype}, {"init_type", std::string("undef")}});
  ops.op("HostStore", {ops.make("HostLoad", {init}, {{"stream", in->id()}})},
         {{"stream", out->id()}});
  main.create_op(op_registry().get("Loop"), {nullptr, nullptr},
                 {{"trip_count", std::int64_t{3}}, {"modified", Ints{}}}, {}, {&body});
  return ir;
}

TEST(Session, ARunThatLoadsMoreOftenThanThereIsDataBeginsAgain) {
  const auto ir = copying_program({2});
  Session session(*ir);
  session.attach();
  std::vector<float> given = {1, 2, 3, 4, 5, 6}, taken(6);
  const auto buffer = [](std::vector<float>& values, std::int64_t count) {
    return StreamBuffer{reinterpret_cast<std::byte*>(values.data()), count};
  };
  EXPECT_TRUE(session.run({buffer(given, 3)}, {buffer(taken, 3)}).empty());
  EXPECT_EQ(taken, given);
  const std::vector<RepeatedStream> loads = session.run({buffer(given, 2)}, {buffer(taken, 3)});
  EXPECT_EQ(taken, (std::vector<float>{1, 2, 3, 4, 1, 2}));
  ASSERT_EQ(loads.size(), 1);
  EXPECT_EQ(loads[0].stream, "in");
  EXPECT_TRUE(loads[0].host_to_device);
  EXPECT_EQ(loads[0].transfers, 3);
  EXPECT_EQ(loads[0].count, 2);
  const std::vector<RepeatedStream> stores = session.run({buffer(given, 3)}, {buffer(taken, 1)});
  EXPECT_EQ(taken, (std::vector<float>{5, 6, 3, 4, 1, 2}));
  ASSERT_EQ(stores.size(), 1);
  EXPECT_EQ(stores[0].stream, "out");
  EXPECT_FALSE(stores[0].host_to_device);
}

TEST(Session, ValuesWithoutElementsAreNeverUsedUp) {
  const auto ir = copying_program({0});
  Session session(*ir);
  session.attach();
  std::byte none{};
  session.run({{&none, 1}}, {{&none, 1}});
}

}  // namespace
}  // namespace pando::testing
