// Random programs: the engine against the reference, with and without inlining, on one thread and
// two, on one virtual device and three, on one replica and several, as pipelines; and against
// itself, to the bit, also from the cache.
//
// PANDO_FUZZ_SEED: the first seed; PANDO_FUZZ_GRAPHS: how many programs (1: a failing one is
// printed); PANDO_FUZZ_FAMILIES: which kinds of ops (Family); PANDO_FUZZ_PROGRESS: a file that gets
// one character a program. `./dev fuzz` runs many.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <string_view>

#include "pando/base/error.hpp"
#include "pando/session/session.hpp"
#include "pando/transforms/pipelining.hpp"
#include "tests/cpp/fuzz/harness.hpp"

namespace pando::fuzz {
namespace {

/// Whether something is summed in an order that may depend on the number of threads.
bool sums_products(const FuzzProgram& program) {
  static constexpr std::string_view kKinds[] = {"MatMul",          "Conv",
                                                "ConvTranspose",   "ConvDataGrad",
                                                "ConvWeightsGrad", "ScaledDotProductAttentionGrad"};
  for (const Graph* graph : program.ir->graphs()) {
    for (const Op* op : graph->ops()) {
      if (std::find(std::begin(kKinds), std::end(kKinds), op->kind_name()) != std::end(kKinds)) {
        return true;
      }
    }
  }
  return false;
}

/// Runs the program twice on `threads` threads per replica, compares and says what is wrong.
std::string check_runs(const FuzzProgram& program, const std::vector<NamedBytes>& inputs,
                       int threads, const References& wanted) {
  const Results first = run_engine(program, inputs, {threads});
  std::string text = compare(program, first, wanted);
  if (!text.empty()) return text;
  text = bit_difference(program, first, run_engine(program, inputs, {threads}));
  return text.empty() ? text : "two runs differ in " + text;
}

/// The same ops on three devices.
std::string check_devices(std::uint64_t seed, const std::vector<NamedBytes>& inputs,
                          const References& wanted) {
  constexpr int kDevices = 3;
  for (const bool keep_calls : {false, true}) {
    const FuzzProgram program = random_program(seed, keep_calls);
    if (keep_calls && program.bodies.empty()) return {};
    place_at_random(program, kDevices);
    const std::string text = check_runs(program, inputs, kDevices, wanted);
    if (!text.empty()) return str_cat("devices, calls kept ", keep_calls, ": ", text);
  }
  return {};
}

/// The program of `seed` run as a pipeline, against its stages one after the other.
std::string check_pipeline(std::uint64_t seed, ReferenceSet set) {
  const FuzzProgram program = random_pipeline(seed);
  const std::vector<NamedBytes> inputs = random_inputs(program);
  const References wanted = run_reference(program, inputs, set);
  pipeline(program.ir->main_graph(), program.stages, program.steps, {});
  return check_runs(program, inputs, kPipelineDevices, wanted);
}

std::string check_program(std::uint64_t seed, ReferenceSet set) {
  const FuzzProgram program = random_program(seed, false);
  const std::vector<NamedBytes> inputs = random_inputs(program);
  const References wanted = run_reference(program, inputs, set);
  const Results one = run_engine(program, inputs, {1});
  std::string text = compare(program, one, wanted);
  if (!text.empty()) return "inlined: " + text;
  const Results two = run_engine(program, inputs, {2});
  text = compare(program, two, wanted);
  if (!text.empty()) return "inlined, two threads: " + text;
  text = bit_difference(program, two, run_engine(program, inputs, {2}));
  if (!text.empty()) return "two runs differ in " + text;
  text = sums_products(program) ? "" : bit_difference(program, one, two);
  if (!text.empty()) return "one thread and two differ in " + text;
  text = check_devices(seed, inputs, wanted);
  if (!text.empty()) return text;
  if (program.bodies.empty()) return {};
  const FuzzProgram called = random_program(seed, true);
  text = compare(called, run_engine(called, inputs, {2}), wanted);
  return text.empty() ? text : "with calls kept: " + text;
}

/// What is wrong with the program of `seed`; empty when nothing is.
std::string check(std::uint64_t seed) {
  try {
    std::string text;
    for (const ReferenceSet set : {ReferenceSet::Two, ReferenceSet::All}) {
      text = is_pipeline(seed) ? check_pipeline(seed, set) : check_program(seed, set);
      if (text.empty()) break;
    }
    return text;
  } catch (const std::exception& error) {
    return error.what();
  }
}

/// Pipelines: the stages one after the other, then the pipeline as it is compiled.
std::string listing(std::uint64_t seed) {
  const FuzzProgram program =
      is_pipeline(seed) ? random_pipeline(seed) : random_program(seed, false);
  const std::string text = program_text(program);
  if (is_pipeline(seed)) {
    pipeline(program.ir->main_graph(), program.stages, program.steps, {});
  }
  return str_cat(text, Session(*program.ir).disassembly());
}

bool returns_one_tensor_twice(const Graph& graph) {
  const std::set<const Tensor*> outputs(graph.outputs().begin(), graph.outputs().end());
  return outputs.size() < graph.outputs().size();
}

bool returns_an_input(const Graph& graph) {
  return std::any_of(graph.outputs().begin(), graph.outputs().end(), [&](const Tensor* output) {
    return std::find(graph.inputs().begin(), graph.inputs().end(), output) != graph.inputs().end();
  });
}

constexpr const char* kExpectedKinds[] = {"Add",
                                          "MatMul",
                                          "ReduceSum",
                                          "Softmax",
                                          "SoftmaxGrad",
                                          "GroupNormalization",
                                          "BatchNormalizationTraining",
                                          "Dropout",
                                          "Cast",
                                          "Concat",
                                          "Split",
                                          "Gather",
                                          "TopK",
                                          "ArgMax",
                                          "CumSum",
                                          "Histogram",
                                          "ScatterReduce",
                                          "ScatterArgReduce",
                                          "Conv",
                                          "ConvTranspose",
                                          "ConvDataGrad",
                                          "ConvWeightsGrad",
                                          "MaxPool",
                                          "MaxPoolGrad",
                                          "AveragePool",
                                          "AveragePoolGrad",
                                          "AdaptiveMaxPool",
                                          "AdaptiveMaxPoolGrad",
                                          "AdaptiveAveragePool",
                                          "AdaptiveAveragePoolGrad",
                                          "Accumulate",
                                          "AdamUpdater",
                                          "AdamVarUpdate",
                                          "SparseAccumulate",
                                          "SparseAdam",
                                          "GatherGrad",
                                          "GroupedMatMul",
                                          "GroupedOuter",
                                          "CopyVarUpdate",
                                          "SliceInplace",
                                          "Call",
                                          "Loop",
                                          "If",
                                          "HostLoad",
                                          "RemoteLoad",
                                          "RemoteStore",
                                          "ReplicatedAllReduce",
                                          "ReplicatedAllReduceInplace",
                                          "ReplicatedReduceScatter",
                                          "ReplicatedAllGather"};
constexpr std::pair<Family, const char*> kFamilyKinds[] = {
    {Family::Copies, "Detach"},         {Family::Integers, "Fmod"},
    {Family::Integers, "IncrementMod"}, {Family::Gradients, "AddArg0Grad"},
    {Family::Gradients, "SinGrad"},     {Family::Gradients, "SliceGrad"},
    {Family::Gradients, "SoftmaxGrad"}, {Family::Gradients, "BatchNormalizationTrainingGrad"},
    {Family::Whiles, "While"}};

/// A generator that lost a kind of op would find fewer faults without failing.
TEST(RandomGraphsMake, EveryFamily) {
  std::set<std::string> made;
  int repeated = 0, passed_on = 0;
  for (std::uint64_t seed = 1; seed <= 2000; ++seed) {
    const FuzzProgram program =
        is_pipeline(seed) ? random_pipeline(seed) : random_program(seed, false);
    for (const Graph* graph : program.ir->graphs()) {
      for (const Op* op : graph->ops()) made.insert(op->kind_name());
      repeated += returns_one_tensor_twice(*graph);
      passed_on += returns_an_input(*graph);
    }
  }
  EXPECT_TRUE(!is_on(Family::Outputs) || (repeated > 10 && passed_on > 10));
  for (const char* kind : kExpectedKinds) EXPECT_TRUE(made.contains(kind)) << kind;
  for (const auto& [family, kind] : kFamilyKinds) {
    EXPECT_TRUE(!is_on(family) || made.contains(kind)) << kind;
  }
}

/// The programs of one test run are cut into parts, so that a test driver can run them side by
/// side.
class RandomGraphs : public ::testing::TestWithParam<std::uint64_t> {};

constexpr std::uint64_t kParts = 8;

TEST_P(RandomGraphs, EngineEqualsReference) {
  const auto [first, end] = seed_range(2000);
  for (std::uint64_t seed = first + GetParam(); seed < end; seed += kParts) {
    std::string fault = check(seed);
    report_progress(!fault.empty());
    if (fault.empty()) continue;
    if (end == first + 1) fault += "\n" + listing(seed);
    ADD_FAILURE() << "seed " << seed << ": " << fault << "\nrepeat with: PANDO_FUZZ_SEED=" << seed
                  << " PANDO_FUZZ_GRAPHS=1 pando_tests --gtest_filter='*RandomGraphs*'";
  }
}

INSTANTIATE_TEST_SUITE_P(Parts, RandomGraphs, ::testing::Range(std::uint64_t{0}, kParts));

TEST(RandomGraphsFromTheCache, GiveTheSameBits) {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / str_cat("pando_cached_graphs_", ::getpid());
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    // Inlined, with calls kept, on three devices.
    for (int variant = 0; variant < 3; ++variant) {
      const FuzzProgram program = random_program(seed, variant == 1);
      if (variant == 2) place_at_random(program, 3);
      const std::vector<NamedBytes> inputs = random_inputs(program);
      // A program that calls nothing is the same in two of them.
      const std::string own = folder / str_cat(seed, "_", variant);
      const Results compiled = run_engine(program, inputs, {.cache_folder = own});
      const Results cached = run_engine(program, inputs, {.cache_folder = own, .cached = true});
      EXPECT_EQ(bit_difference(program, compiled, cached), "") << "seed " << seed;
    }
  }
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace pando::fuzz
