// Steps of random programs: they keep their rules after every pass, and are the same as text.
//
// PANDO_FUZZ_SEED: the first seed; PANDO_FUZZ_GRAPHS: how many programs. `./dev fuzz N SEED steps`.
#include <gtest/gtest.h>

#include "pando/backends/cpu/cpu_target.hpp"
#include "pando/base/error.hpp"
#include "pando/compile/memory_reports.hpp"
#include "pando/compile/pipeline.hpp"
#include "pando/compile/resolve_steps.hpp"
#include "pando/compile/step_passes.hpp"
#include "pando/program/check.hpp"
#include "pando/steps/step_parser.hpp"
#include "pando/steps/step_printer.hpp"
#include "pando/steps/step_verifier.hpp"
#include "pando/transforms/pipelining.hpp"
#include "tests/conformance/fake_device.hpp"
#include "tests/cpp/fuzz/harness.hpp"

namespace pando::fuzz {
namespace {

/// As it is, with calls kept, on three devices, the same with separate memories; or a pipeline,
/// and the same with separate memories.
constexpr int kVariants = 4, kPipelineVariants = 2;

FuzzProgram program_of(std::uint64_t seed, int variant) {
  if (is_pipeline(seed)) {
    FuzzProgram program = random_pipeline(seed);
    pipeline(program.ir->main_graph(), program.stages, program.steps, {});
    return program;
  }
  FuzzProgram program = random_program(seed, variant == 1);
  if (variant >= 2) place_at_random(program, 3);
  return program;
}

bool has_separate_memories(std::uint64_t seed, int variant) {
  return variant == (is_pipeline(seed) ? kPipelineVariants : kVariants) - 1;
}

std::string live_text(const LiveTensorTable& table) {
  std::string text;
  for (const LiveTensor& tensor : table.all()) {
    text += str_cat(tensor.name, " ", tensor.bytes, " ", tensor.location, " ", tensor.depth, "\n");
  }
  return text;
}

/// A program that was text in between has its texts in another order.
void expect_same(const Program& a, const Program& b) {
  EXPECT_EQ(a.kernels, b.kernels);
  EXPECT_EQ(a.functions, b.functions);
  EXPECT_EQ(a.persistent, b.persistent);
  EXPECT_EQ(a.persistent_bytes, b.persistent_bytes);
  EXPECT_EQ(a.streams, b.streams);
  EXPECT_EQ(a.remote_buffers, b.remote_buffers);
  EXPECT_EQ(a.remote_variables, b.remote_variables);
  EXPECT_EQ(a.collectives, b.collectives);
  EXPECT_EQ(a.prints, b.prints);
  EXPECT_EQ(a.host_calls, b.host_calls);
  const auto numbers = [](const Program& p) {
    return std::vector<std::int64_t>{p.main_function, p.weights_from_host_function,
                                     p.weights_to_host_function, p.replicas, p.devices};
  };
  EXPECT_EQ(numbers(a), numbers(b));
  ASSERT_EQ(a.sources.size(), b.sources.size());
  for (std::size_t i = 0; i < a.sources.size(); ++i) {
    EXPECT_EQ(a.sources[i].op, b.sources[i].op);
    EXPECT_EQ(a.sources[i].location, b.sources[i].location);
    EXPECT_EQ(a.sources[i].phase, b.sources[i].phase);
  }
  EXPECT_EQ(a.memory.peak_frame_bytes, b.memory.peak_frame_bytes);
  EXPECT_EQ(a.memory.timeline, b.memory.timeline);
  EXPECT_EQ(a.memory.source_at_peak, b.memory.source_at_peak);
  EXPECT_EQ(live_text(a.memory.alive_at_peak), live_text(b.memory.alive_at_peak));
  ASSERT_EQ(a.memory.devices.size(), b.memory.devices.size());
  for (std::size_t d = 0; d < a.memory.devices.size(); ++d) {
    EXPECT_EQ(a.memory.devices[d].peak_frame_bytes, b.memory.devices[d].peak_frame_bytes);
    EXPECT_EQ(a.memory.devices[d].persistent_bytes, b.memory.devices[d].persistent_bytes);
    EXPECT_EQ(live_text(a.memory.devices[d].alive_at_peak),
              live_text(b.memory.devices[d].alive_at_peak));
  }
}

/// Every pass on steps that were text before it, to the program.
Program compiled_through_text(std::string text, Target& target) {
  for (const StepPass& pass : all_step_passes()) {
    StepProgram steps = parse_steps(text);
    pass.run(steps, target);
    text = print_steps(steps);
  }
  StepProgram steps = parse_steps(text);
  MemoryReport memory = measure_memory(steps);
  Program program = resolve(steps);
  program.memory = std::move(memory);
  return program;
}

class RandomSteps : public ::testing::TestWithParam<std::uint64_t> {};

constexpr std::uint64_t kStepParts = 4;

TEST_P(RandomSteps, KeepTheRulesAndAreTheSameAsText) {
  const auto [first, end] = seed_range(200);
  const auto cpu = make_cpu_target(1);
  const auto fake = pando::testing::make_fake_target(1);
  for (std::uint64_t seed = first + GetParam(); seed < end; seed += kStepParts) {
    const int variants = is_pipeline(seed) ? kPipelineVariants : kVariants;
    for (int variant = 0; variant < variants; ++variant) {
      SCOPED_TRACE(str_cat("PANDO_FUZZ_SEED=", seed, " PANDO_FUZZ_GRAPHS=1, variant ", variant));
      const FuzzProgram program = program_of(seed, variant);
      Target& target = has_separate_memories(seed, variant) ? *fake : *cpu;
      std::string lowered;
      CompileOptions options;
      // Room for early loads in most programs, none in some.
      options.prefetch_bytes = seed % 5 == 0 ? 0 : std::int64_t{1} << (seed % 20);
      options.after_steps = [&](const std::string& stage, const StepProgram& steps) {
        verify(steps, stage);
        const std::string text = print_steps(steps);
        EXPECT_EQ(print_steps(parse_steps(text)), text) << "after " << stage;
        if (stage == "lower") lowered = text;
      };
      try {
        StageTimes times;
        const Program compiled = compile(*program.ir, target, options, times);
        check_program(compiled);
        expect_same(compiled, compiled_through_text(lowered, target));
      } catch (const Error& error) {
        ADD_FAILURE() << error.what();
      }
      if (HasFailure()) break;
    }
    report_progress(HasFailure());
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Parts, RandomSteps, ::testing::Range(std::uint64_t{0}, kStepParts));

}  // namespace
}  // namespace pando::fuzz
