// What was compiled once runs in several runners.
#include "pando/session/runner.hpp"

#include <gtest/gtest.h>

#include <cstring>

#include "pando/backends/cpu/cpu_device.hpp"
#include "pando/backends/cpu/cpu_target.hpp"
#include "pando/base/error.hpp"
#include "pando/session/compiler.hpp"
#include "pando/session/executable_cache.hpp"
#include "tests/cpp/ir/ir_fixture.hpp"

namespace pando::testing {
namespace {

using Pair = std::vector<float>;

/// w += [1, 2], then stores w * (3 + 4): a variable, a constant of the Ir and one that is folded.
std::unique_ptr<Ir> growing_program() {
  op_registry();
  auto ir = std::make_unique<Ir>();
  Graph& main = ir->main_graph();
  OpBuilder ops(main, {});
  Tensor* w = variable(main, "w", {10.0f, 20.0f}, {2});
  const float steps[] = {1.0f, 2.0f};
  Op& add = ops.op("AddLhsInplace", {w, ops.constant({DType::Float32, {2}, {}}, steps)});
  const float numbers[] = {3.0f, 4.0f};
  Tensor* three = ops.constant({DType::Float32, {}, {}}, &numbers[0]);
  Tensor* four = ops.constant({DType::Float32, {}, {}}, &numbers[1]);
  store(main, ops.make("Mul", {add.output(0), ops.make("Add", {three, four})}));
  return ir;
}

RunnerOptions options_with(int num_threads) {
  RunnerOptions options;
  options.num_threads = num_threads;
  return options;
}

std::shared_ptr<const Executable> compiled(const Ir& ir, const CompilerOptions& options = {}) {
  CompileReport report;
  return Compiler(make_cpu_target(1), options).compile(ir, report);
}

std::unique_ptr<Runner> runner_of(const std::shared_ptr<const Executable>& executable,
                                  const HostArrays& arrays) {
  const RunnerOptions options = options_with(1);
  auto runner = std::make_unique<Runner>(executable, arrays, LocalReplicas(options, 1, 1), options);
  runner->attach();
  runner->weights_from_host();
  return runner;
}

HostArrays array_of(const Pair& values) {
  return {HostArray::copy_of(values.data(), values.size() * sizeof(float))};
}

Pair values_of(const HostArrays& arrays) {
  Pair values(2);
  std::memcpy(values.data(), arrays[0]->data, arrays[0]->bytes);
  return values;
}

Pair run(Runner& runner) {
  Pair result(2);
  runner.run({}, {{reinterpret_cast<std::byte*>(result.data()), 1}});
  return result;
}

TEST(Runner, TwoOfOneExecutableShareNoVariables) {
  const auto ir = growing_program();
  const std::shared_ptr<const Executable> executable = compiled(*ir);
  const HostArrays small = array_of({0.0f, 1.0f}), large = array_of({100.0f, 200.0f});
  const auto first = runner_of(executable, small);
  const auto second = runner_of(executable, large);
  EXPECT_EQ(run(*first), (Pair{7.0f, 21.0f}));
  EXPECT_EQ(run(*first), (Pair{14.0f, 35.0f}));
  EXPECT_EQ(run(*second), (Pair{707.0f, 1414.0f}));
  EXPECT_EQ(run(*first), (Pair{21.0f, 49.0f}));
  first->weights_to_host();
  second->weights_to_host();
  EXPECT_EQ(values_of(small), (Pair{3.0f, 7.0f}));
  EXPECT_EQ(values_of(large), (Pair{101.0f, 202.0f}));
  EXPECT_EQ(values_of(host_arrays_of(*executable, *ir)), (Pair{10.0f, 20.0f}));
}

TEST(Runner, OutlivesOthersAndTheIr) {
  auto ir = growing_program();
  std::shared_ptr<const Executable> executable = compiled(*ir);
  ir.reset();
  auto first = runner_of(executable, array_of({0.0f, 0.0f}));
  const auto second = runner_of(executable, array_of({1.0f, 1.0f}));
  executable.reset();
  run(*first);
  first.reset();
  EXPECT_EQ(run(*second), (Pair{14.0f, 21.0f}));
}

TEST(Runner, TakesAnExecutableThatWasStored) {
  const auto ir = growing_program();
  const std::shared_ptr<const Executable> executable = compiled(*ir);
  EXPECT_GE(executable->constants().size(), 2U);
  const Hash128 key{1, 2};
  const auto read = std::make_shared<const Executable>(
      deserialise_executable(serialise_executable(key, *executable, *ir), key, *ir));
  EXPECT_EQ(read->target(), executable->target());
  EXPECT_EQ(read->fingerprint(), executable->fingerprint());
  EXPECT_EQ(run(*runner_of(read, array_of({5.0f, 6.0f}))), (Pair{42.0f, 56.0f}));
}

TEST(Compiler, NeedsNoDevice) {
  int targets = 0, devices = 0;
  add_device_kind("counted", {[&](const DeviceSettings& settings) {
                                ++targets;
                                return make_cpu_target(settings.num_threads);
                              },
                              [&](const DeviceSettings&, const Target& target) {
                                ++devices;
                                return make_cpu_device(target.num_threads());
                              }});
  RunnerOptions options = options_with(1);
  options.device = "counted";
  LocalReplicas replicas(options, 1, 1);
  CompileReport report;
  const auto ir = growing_program();
  const auto executable = Compiler(replicas.target(0), {}).compile(*ir, report);
  EXPECT_FALSE(report.stages.empty());
  Runner runner(executable, host_arrays_of(*executable, *ir), std::move(replicas), options);
  EXPECT_EQ(targets, 1);
  EXPECT_EQ(devices, 0);
  runner.attach();
  EXPECT_EQ(devices, 1);
}

/// What `work` throws as a ValueError.
template <class Work>
std::string refusal_of(Work work) {
  try {
    work();
  } catch (const ValueError& error) {
    return error.what();
  }
  return "no error";
}

TEST(Runner, RefusesWhatDoesNotFitTheExecutable) {
  const auto ir = growing_program();
  const auto executable = compiled(*ir);
  const HostArrays arrays = host_arrays_of(*executable, *ir);
  const auto refusal = [&](HostArrays given, int num_threads, std::int64_t replicas) {
    const RunnerOptions options = options_with(num_threads);
    return refusal_of([&] {
      const Runner runner(executable, std::move(given), LocalReplicas(options, replicas, 1),
                          options);
    });
  };
  EXPECT_EQ(refusal(arrays, 1, 1), "no error");
  EXPECT_NE(refusal(arrays, 2, 1).find("compiled for another target: wanted 'cpu threads 1 "),
            std::string::npos);
  EXPECT_NE(refusal(arrays, 2, 2).find("the program is for 1 replicas; given 2"),
            std::string::npos);
  EXPECT_NE(refusal({}, 1, 1).find("a host array for each of 1 variables; given 0"),
            std::string::npos);
  EXPECT_NE(refusal({HostArray::allocate(4)}, 1, 1).find("wanted 8 bytes of host data; given 4"),
            std::string::npos);
}

TEST(CpuTarget, TakesTheOptionsThatItKnows) {
  EXPECT_NE(refusal_of([] {
              make_cpu_target(1, {{"machine_code", "perhaps"}});
            }).find("wanted machine_code to be one of 'auto', 'never', 'always'; given 'perhaps'"),
            std::string::npos);
  EXPECT_NE(refusal_of([] {
              make_cpu_target(1, {{"tiles", "4"}});
            }).find("the device 'cpu' has no option 'tiles'"),
            std::string::npos);
  EXPECT_NE(make_cpu_target(1, {{"machine_code", "never"}})->identity(),
            make_cpu_target(1)->identity());
}

}  // namespace
}  // namespace pando::testing
