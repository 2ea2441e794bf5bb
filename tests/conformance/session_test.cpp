// Sessions on every kind of device: what goes in and out beside streams, and what ends a run.
#include "pando/session/session.hpp"
#include "pando/session/runner_state.hpp"

#include <cstring>
#include <filesystem>

#include "pando/base/error.hpp"
#include "pando/ops/host_call.hpp"
#include "pando/runtime/host_function.hpp"
#include "pando/runtime/stream_thread.hpp"
#include "tests/conformance/device_under_test.hpp"
#include "tests/cpp/ir/ir_fixture.hpp"

namespace pando::testing {
namespace {

constexpr std::int64_t kElements = 4;
const TensorInfo kCounts{DType::Int32, {kElements}, {}};
using Counts = std::vector<std::int32_t>;

Counts all(std::int32_t value) { return Counts(kElements, value); }

/// main: prints w, then repeats `steps` times: v += 1, w += v; stores v + w.
struct CountingProgram {
  explicit CountingProgram(std::int64_t steps) {
    op_registry();
    Graph& main = ir.main_graph();
    v = variable_of("v", 0);
    w = variable_of("w", 100);
    OpBuilder ops(main, {});
    ops.op("PrintTensor", {w}, print_format());
    Graph& body = ir.create_graph("body");
    body.add_input(body.unique_tensor_id("Iterator___"), {DType::Int32, {}, {}});
    body.mark_output(body.add_input(body.unique_tensor_id("LoopCond___"), {DType::Bool, {}, {}}));
    Tensor* in_v = body.add_input(body.unique_tensor_id("v"), kCounts, true);
    Tensor* in_w = body.add_input(body.unique_tensor_id("w"), kCounts, true);
    OpBuilder steps_of(body, {});
    Tensor* next = steps_of.make("AddLhsInplace", {in_v, steps_of.constant(1, DType::Int32)});
    steps_of.op("AddLhsInplace", {in_w, next});
    main.create_op(op_registry().get("Loop"), {nullptr, nullptr, v, w},
                   {{"trip_count", steps}, {"modified", Ints{2, 3}}}, {}, {&body});
    store(main, ops.make("Add", {v, w}));
  }

  Tensor* variable_of(const char* name, std::int32_t value) {
    return ir.main_graph().add_variable(
        name, kCounts, HostArray::copy_of(all(value).data(), kElements * sizeof value));
  }

  static Attributes print_format() {
    return {{"title", std::string("w")},        {"print_self", true},
            {"print_gradient", false},          {"summarise_threshold", std::int64_t{1000}},
            {"edge_items", std::int64_t{3}},    {"max_line_width", std::int64_t{75}},
            {"digits", std::int64_t{8}},        {"float_format", std::string("auto")},
            {"separator", std::string(" ")},    {"open_bracket", std::string("[")},
            {"close_bracket", std::string("]")}};
  }

  /// Its variables must have been read from the device.
  static Counts values(const Tensor* variable) {
    Counts result(kElements);
    std::memcpy(result.data(), variable->data->data, variable->data->bytes);
    return result;
  }

  Ir ir;
  Tensor* v = nullptr;
  Tensor* w = nullptr;
};

SessionOptions on(const std::string& device) {
  add_fake_device_kind();
  SessionOptions options;
  options.device = device;
  options.check_inplace_ambiguity = false;  // the order is that of the ops
  options.num_threads = 1;
  return options;
}

Counts run(Session& session) {
  Counts result(kElements);
  session.run({}, {{reinterpret_cast<std::byte*>(result.data()), 1}});
  return result;
}

class SessionConformance : public ::testing::TestWithParam<std::string> {};

TEST_P(SessionConformance, RunsLoopsAndPrints) {
  CountingProgram program(20);
  Session session(program.ir, on(GetParam()));
  session.attach();
  session.weights_from_host();
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(run(session), all(20 + 100 + 210));
  EXPECT_EQ(run(session), all(40 + 100 + 820));
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "w: [100 100 100 100]\n\nw: [310 310 310 310]\n\n");
  session.weights_to_host();
  EXPECT_EQ(CountingProgram::values(program.v), all(40));
  EXPECT_EQ(CountingProgram::values(program.w), all(920));
}

/// main: `steps` times: loads, adds to v, stores v.
struct StreamingProgram {
  explicit StreamingProgram(std::int64_t steps) {
    op_registry();
    Graph& main = ir.main_graph();
    for (const auto& [name, direction] : {std::pair{"in", StreamDirection::HostToDevice},
                                          std::pair{"out", StreamDirection::DeviceToHost}}) {
      ir.add_stream(*main.add_stream(name, kCounts), direction);
    }
    Tensor* v = main.add_variable(
        "v", kCounts, HostArray::copy_of(all(0).data(), kElements * sizeof(std::int32_t)));
    Graph& body = ir.create_graph("body");
    body.add_input(body.unique_tensor_id("Iterator___"), {DType::Int32, {}, {}});
    body.mark_output(body.add_input(body.unique_tensor_id("LoopCond___"), {DType::Bool, {}, {}}));
    Tensor* total = body.add_input(body.unique_tensor_id("v"), kCounts, true);
    OpBuilder ops(body, {});
    Tensor* init = ops.make(
        "Init", {},
        {{"shape", kCounts.shape}, {"dtype", kCounts.dtype}, {"init_type", std::string("undef")}});
    Tensor* loaded = ops.make("HostLoad", {init}, {{"stream", std::string("in")}});
    Tensor* sum = ops.make("AddLhsInplace", {total, loaded});
    ops.op("HostStore", {sum}, {{"stream", std::string("out")}});
    main.create_op(op_registry().get("Loop"), {nullptr, nullptr, v},
                   {{"trip_count", steps}, {"modified", Ints{2}}}, {}, {&body});
  }

  Ir ir;
};

TEST_P(SessionConformance, FunctionsFeedAndDrainStreamsWhileItRuns) {
  constexpr std::int64_t kSteps = 50, kBytes = kElements * sizeof(std::int32_t);
  StreamingProgram program(kSteps);
  Session session(program.ir, on(GetParam()));
  session.attach();
  session.weights_from_host();
  const auto given = std::make_shared<TransferQueue>("in", true, kBytes, 1, 3);
  const auto taken = std::make_shared<TransferQueue>("out", false, kBytes, 1, 2);
  std::int32_t next = 0;
  const auto source = StreamThread::pulling(given, [&](std::byte* transfer) {
    std::memcpy(transfer, all(++next).data(), kBytes);
    return next <= 3 * kSteps - 1;  // the third run lacks one
  });
  std::vector<Counts> sums;
  const auto sink = StreamThread::pushing(taken, [&](const std::byte* transfer) {
    std::memcpy(sums.emplace_back(kElements).data(), transfer, kBytes);
  });
  const auto run_once = [&] {
    session.run({{.queue = given}}, {{.queue = taken}});
    sink->flush({});
  };
  run_once();
  run_once();
  ASSERT_EQ(sums.size(), 2 * kSteps);
  std::int32_t sum = 0;
  for (std::int32_t k = 1; k <= 2 * kSteps; ++k) {
    EXPECT_EQ(sums[static_cast<std::size_t>(k) - 1], all(sum += k));
  }
  EXPECT_THROW(run_once(), RuntimeFault);
  EXPECT_THROW(session.run({{.queue = taken}}, {{.queue = taken}}), ValueError);
}

TEST_P(SessionConformance, ElementsOfArraysLieWhereStridesSay) {
  constexpr std::int64_t kBytes = kElements * sizeof(std::int32_t);
  StreamingProgram program(3);
  Session session(program.ir, on(GetParam()));
  session.attach();
  session.weights_from_host();
  const auto bytes = [](std::vector<Counts>& rows, std::size_t row) {
    return reinterpret_cast<std::byte*>(rows[row].data());
  };
  std::vector<Counts> in = {all(0)};
  in[0].resize(5 * kElements);  // five elements in one array
  for (std::size_t i = 0; i < in[0].size(); ++i) {
    in[0][i] = static_cast<std::int32_t>(i) / kElements + 1;
  }
  std::vector<Counts> out = {Counts(5 * kElements, -1)};
  const auto run_with = [&](const StreamBuffer& source, const StreamBuffer& target) {
    session.weights_from_host();
    session.run({source}, {target});
    Counts firsts;
    for (std::size_t i = 0; i < 5; ++i) firsts.push_back(out[0][i * kElements]);
    out[0].assign(out[0].size(), -1);
    return firsts;
  };
  StreamBuffer source{bytes(in, 0), 3}, target{bytes(out, 0), 3};
  EXPECT_EQ(run_with(source, target), (Counts{1, 3, 6, -1, -1}));
  source.transfer_stride = 2 * kBytes;  // 1, 3, 5
  EXPECT_EQ(run_with(source, target), (Counts{1, 4, 9, -1, -1}));
  source.data += 4 * kBytes;
  source.transfer_stride = -kBytes;  // 5, 4, 3
  target.transfer_stride = 2 * kBytes;
  EXPECT_EQ(run_with(source, target), (Counts{5, -1, 9, -1, 12}));
  source.transfer_stride = 0;  // 5, 5, 5
  target.data += 4 * kBytes;
  target.transfer_stride = -2 * kBytes;
  EXPECT_EQ(run_with(source, target), (Counts{15, -1, 10, -1, 5}));
  for (const std::int64_t stride : {std::int64_t{0}, kBytes - 4, 4 - kBytes}) {
    target.transfer_stride = stride;
    EXPECT_NE(error_of([&] { run_with(source, target); }).find("memory of its own"),
              std::string::npos);
  }
}

/// main: `steps` times: v += f(v), and stores v.
struct CallingProgram {
  explicit CallingProgram(std::int64_t steps) {
    op_registry();
    Graph& main = ir.main_graph();
    Tensor* v = main.add_variable(
        "v", kCounts, HostArray::copy_of(all(1).data(), kElements * sizeof(std::int32_t)));
    Graph& body = ir.create_graph("body");
    body.add_input(body.unique_tensor_id("Iterator___"), {DType::Int32, {}, {}});
    body.mark_output(body.add_input(body.unique_tensor_id("LoopCond___"), {DType::Bool, {}, {}}));
    Tensor* total = body.add_input(body.unique_tensor_id("v"), kCounts, true);
    OpBuilder ops(body, {});
    const Op& call =
        ops.op("HostCall", {total, total}, host_call_attributes("f", {kCounts, kCounts}));
    ops.op("AddLhsInplace", {total, call.output(1)});
    main.create_op(op_registry().get("Loop"), {nullptr, nullptr, v},
                   {{"trip_count", steps}, {"modified", Ints{2}}}, {}, {&body});
    store(main, v);
  }

  Ir ir;
};

TEST_P(SessionConformance, FunctionsOfTheHostAreCalledInLoops) {
  CallingProgram program(8);
  Session session(program.ir, on(GetParam()));
  session.attach();
  session.weights_from_host();
  const auto queue = std::make_shared<HostFunctionQueue>("f");
  int calls = 0;
  const HostFunctionThread thread(queue, [&](HostCall& call) {
    if (++calls == 14) throw RuntimeFault("the function has had enough");
    EXPECT_EQ(call.input(0), call.input(1));
    call.output(1) = call.input(0);
  });
  session.host_functions().set(queue);
  EXPECT_EQ(run(session), all(1 << 8));
  EXPECT_EQ(calls, 8);
  const std::string error = error_of([&] { run(session); });
  EXPECT_NE(error.find("the function has had enough"), std::string::npos) << error;
  // The 5 iterations before it stay done.
  EXPECT_EQ(run(session), all(1 << 21));
  EXPECT_EQ(calls, 22);
}

TEST_P(SessionConformance, StateIsReadAndWrittenBetweenRuns) {
  CountingProgram program(3);
  Session session(program.ir, on(GetParam()));
  session.attach();
  session.weights_from_host();
  const std::vector<std::int64_t> state = session.state_tensors();
  ASSERT_EQ(state.size(), 2U);
  ::testing::internal::CaptureStderr();
  run(session);
  ::testing::internal::GetCapturedStderr();
  const auto snapshot = session.state().snapshot(0);
  Counts found;
  for (const std::int64_t index : state) {
    const std::vector<std::byte>& value = snapshot->persistent(0, index);
    Counts counts(kElements);
    ASSERT_EQ(value.size(), counts.size() * sizeof(std::int32_t));
    std::memcpy(counts.data(), value.data(), value.size());
    EXPECT_EQ(counts, all(counts[0]));
    std::vector<std::byte> now(value.size());
    session.state().read_persistent(0, index, now.data(), now.size());
    EXPECT_EQ(now, value);
    found.push_back(counts[0]);
  }
  EXPECT_EQ(found[0] + found[1], 3 + 106);
  // Exchanging the two variables shows which is which.
  for (std::size_t i = 0; i < 2; ++i) {
    const Counts other = all(found[1 - i]);
    session.state().write_persistent(0, state[i], reinterpret_cast<const std::byte*>(other.data()),
                                     other.size() * sizeof(std::int32_t));
  }
  session.weights_to_host();
  EXPECT_EQ(CountingProgram::values(program.v), all(106));
  EXPECT_EQ(CountingProgram::values(program.w), all(3));
}

TEST_P(SessionConformance, AStoppedRunLeavesTheVariablesInPlace) {
  constexpr std::int64_t for_years = 1'000'000'000'000'000;
  CountingProgram program(for_years);
  SessionOptions options = on(GetParam());
  int polls = 0;
  options.should_stop = [&] { return ++polls >= 3; };
  Session session(program.ir, options);
  session.attach();
  session.weights_from_host();
  ::testing::internal::CaptureStderr();
  EXPECT_THROW(run(session), Interrupted);
  ::testing::internal::GetCapturedStderr();
  polls = -1'000'000;
  session.weights_to_host();
  const std::int32_t v = CountingProgram::values(program.v)[0];
  EXPECT_EQ(CountingProgram::values(program.v), all(v));
  EXPECT_GT(v, 0);
  EXPECT_TRUE(session.is_attached());
}

TEST_P(SessionConformance, ProfilesCountEveryInstruction) {
  CountingProgram program(20);
  SessionOptions options = on(GetParam());
  options.profile = true;
  Session session(program.ir, options);
  session.attach();
  session.weights_from_host();
  ::testing::internal::CaptureStderr();
  run(session);
  ::testing::internal::GetCapturedStderr();
  std::int64_t in_body = 0;
  for (const InstructionTime& entry : session.trace()) {
    EXPECT_GE(entry.seconds, 0.0);
    in_body = std::max(in_body, entry.calls);
  }
  EXPECT_EQ(in_body, 20);
}

INSTANTIATE_TEST_SUITE_P(Devices, SessionConformance, devices_under_test(), device_test_name);

TEST(Devices, AnUnknownKindIsRefusedWithThoseThereAre) {
  CountingProgram program(1);
  const std::string text = error_of([&] { Session session(program.ir, on("abacus:2")); });
  EXPECT_NE(text.find("'abacus:2'"), std::string::npos) << text;
  EXPECT_NE(text.find("cpu"), std::string::npos) << text;
  EXPECT_NE(error_of([&] { Session session(program.ir, on("cpu:2")); }).find("given '2'"),
            std::string::npos);
}

}  // namespace
}  // namespace pando::testing
