// A device that fails in the middle of its work: the error names it, what was done stays, nothing
// waits for ever, and the session goes on.
#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "pando/base/error.hpp"
#include "pando/session/session.hpp"
#include "pando/transforms/pipelining.hpp"
#include "tests/conformance/fake_device.hpp"
#include "tests/cpp/fuzz/harness.hpp"
#include "tests/cpp/ir/ir_fixture.hpp"

namespace pando::testing {
namespace {

/// Whether `work` failed as a fake device does; anything else it throws goes on.
bool fails(const std::function<void()>& work) {
  try {
    work();
  } catch (const RuntimeFault& fault) {
    EXPECT_NE(std::string(fault.what()).find("the fake device failed at item"), std::string::npos)
        << fault.what();
    return true;
  }
  return false;
}

constexpr std::int64_t kFailingSteps = 10;

/// main: repeat: v += 1, which the loop's condition, iterator and result surround.
struct StepsProgram {
  StepsProgram() {
    op_registry();
    Graph& main = ir.main_graph();
    v = variable(main, "v", {0.0F, 0.0F}, {2});
    untouched = variable(main, "untouched", {3.0F, 4.0F}, {2});
    Graph& body = ir.create_graph("body");
    body.add_input(body.unique_tensor_id("Iterator___"), {DType::Int32, {}, {}});
    body.mark_output(body.add_input(body.unique_tensor_id("LoopCond___"), {DType::Bool, {}, {}}));
    Tensor* input = body.add_input(body.unique_tensor_id("v"), v->info, true);
    OpBuilder ops(body, {});
    ops.op("AddLhsInplace", {input, ops.constant(1.0, DType::Float32)});
    main.create_op(op_registry().get("Loop"), {nullptr, nullptr, v},
                   {{"trip_count", kFailingSteps}, {"modified", Ints{2}}}, {}, {&body});
    store(main, OpBuilder(main, {}).make("Add", {v, untouched}));
  }

  static std::vector<float> values(const Tensor* variable) {
    std::vector<float> result(2);
    std::memcpy(result.data(), variable->data->data, variable->data->bytes);
    return result;
  }

  Ir ir;
  Tensor* v = nullptr;
  Tensor* untouched = nullptr;
};

TEST(FailingDevice, LeavesTheStateAsItWasAndTheSessionGoesOn) {
  add_fake_device_kind();
  int failed_runs = 0, whole_runs = 0;
  for (int item = 0; item < 60; ++item) {
    StepsProgram program;
    SessionOptions options;
    options.num_threads = 1;
    options.check_inplace_ambiguity = false;  // the order is that of the ops
    options.device = str_cat("fake:", item, ":", item);
    Session session(program.ir, options);
    if (fails([&] { session.attach(); })) {
      EXPECT_FALSE(session.is_attached());
      continue;
    }
    const auto upload = [&] { session.weights_from_host(); };
    const auto download = [&] { session.weights_to_host(); };
    if (fails(upload)) upload();
    std::vector<float> result(2);
    const auto run = [&] { session.run({}, {{reinterpret_cast<std::byte*>(result.data()), 1}}); };
    float before = 0;
    if (fails(run)) {
      ++failed_runs;
      download();
      before = StepsProgram::values(program.v)[0];
      EXPECT_GE(before, 0.0F);
      EXPECT_LE(before, static_cast<float>(kFailingSteps));
      EXPECT_EQ(before, std::floor(before));
      EXPECT_EQ(StepsProgram::values(program.v)[1], before);
      EXPECT_EQ(StepsProgram::values(program.untouched), (std::vector<float>{3.0F, 4.0F}));
      run();
    } else {
      ++whole_runs;
    }
    const float after = before + static_cast<float>(kFailingSteps);
    EXPECT_EQ(result, (std::vector<float>{after + 3.0F, after + 4.0F})) << "item " << item;
    if (fails(download)) download();
    EXPECT_EQ(StepsProgram::values(program.v), (std::vector<float>{after, after}));
  }
  EXPECT_GT(failed_runs, 15);
  EXPECT_GT(whole_runs, 0);
}

/// Pipelines, virtual devices, replicas, remote buffers: whoever waits for the failed one ends too.
TEST(FailingDevice, EndsWhoeverWaitsForItInRandomPrograms) {
  add_fake_device_kind();
  int failed = 0, whole = 0;
  const auto [first, end] = fuzz::seed_range(80);
  for (std::uint64_t seed = first; seed < end; ++seed) {
    fuzz::FuzzProgram program =
        fuzz::is_pipeline(seed) ? fuzz::random_pipeline(seed) : fuzz::random_program(seed, true);
    const std::vector<fuzz::NamedBytes> inputs = fuzz::random_inputs(program);
    fuzz::EngineSettings settings = {fuzz::kPipelineDevices};
    if (fuzz::is_pipeline(seed)) {
      pipeline(program.ir->main_graph(), program.stages, program.steps, {});
    } else if (seed % 2 == 0) {
      place_at_random(program, fuzz::kPipelineDevices);
    }
    const fuzz::Results wanted = run_engine(program, inputs, settings);
    settings.device = str_cat("fake:", seed, ":", 5 + seed * 2 % 300);
    fuzz::Results given;
    if (fails([&] { given = run_engine(program, inputs, settings); })) {
      ++failed;
    } else {
      ++whole;
      EXPECT_EQ(bit_difference(program, given, wanted), "") << "seed " << seed;
    }
  }
  EXPECT_GT(failed, static_cast<int>(end - first) / 4);
  EXPECT_GT(whole, 0);
}

}  // namespace
}  // namespace pando::testing
