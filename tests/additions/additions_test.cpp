// What a new pass, kind of device and communicator need: files of their own and at most one line.
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>

#include "pando/compile/step_passes.hpp"
#include "pando/session/session.hpp"
#include "pando/transforms/pass_registry.hpp"
#include "tests/cpp/session/replica_programs.hpp"
#include "tests/cpp/worlds/process_world.hpp"

namespace pando::testing {
namespace {

std::vector<std::string> lines_of(const std::string& file) {
  std::ifstream in(file);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

/// The lines that `changed` has beside those of `original`, which it has in the same order.
std::vector<std::string> added_lines(const std::string& original, const std::string& changed) {
  const std::vector<std::string> before = lines_of(original);
  std::vector<std::string> added;
  std::size_t next = 0;
  for (const std::string& line : lines_of(changed)) {
    if (next < before.size() && line == before[next]) {
      ++next;
    } else {
      added.push_back(line);
    }
  }
  EXPECT_GT(next, 0u) << original;
  EXPECT_EQ(next, before.size()) << "a line was changed or taken away";
  return added;
}

/// Runs sharded_program on the given values of x, a row for each local replica; what it stores.
Floats32 run(const SessionOptions& options, Floats32 x, std::int64_t replicas) {
  const auto ir = sharded_program(replicas, {1, 2, 3, 4, 5});
  Session session(*ir, options);
  Floats32 output(x.size());
  session.attach();
  session.weights_from_host();
  for (int step = 0; step < 2; ++step) {
    session.run({{reinterpret_cast<std::byte*>(x.data()), 1}},
                {{reinterpret_cast<std::byte*>(output.data()), 1}});
  }
  return output;
}

const Floats32 kRow = {3, 1, 4, 1, 5};
/// After a step the weights are the mean of x.
const Floats32 kMean = {2.5, 5, 3.5, 3.5, 4};
const Floats32 kRows = {3, 1, 4, 1, 5, 2, 9, 3, 6, 3};

/// The lines that the list `name` has here beside those of the project.
std::vector<std::string> added_to(const std::string& name) {
  return added_lines(PANDO_SOURCES "/" + name, PANDO_CHANGED "/" + name);
}

TEST(Additions, APassOverStepsIsAPairOfFilesAndALine) {
  EXPECT_EQ(added_to("pando/compile/step_passes.def"),
            (std::vector<std::string>{
                R"(PANDO_STEP_PASS("mark_functions", mark_functions, "Marks functions."))"}));
  EXPECT_EQ(find_step_pass("mark_functions").doc, "Marks functions.");
  bool was_run = false;
  SessionOptions options;
  options.after_steps = [&](const std::string& name, const StepProgram&) {
    was_run = was_run || name == "mark_functions";
  };
  const auto ir = sharded_program(1, {1, 2, 3});
  const Session session(*ir, options);
  EXPECT_TRUE(was_run);
  EXPECT_EQ(session.disassembly().substr(0, 20), "function marked main");
  EXPECT_EQ(run(options, kRow, 1), kRow);
}

TEST(Additions, APassOverGraphsIsAPairOfFilesAndALine) {
  EXPECT_EQ(added_to("pando/transforms/passes.def"),
            (std::vector<std::string>{R"(PANDO_GRAPH_PASS("mark_ops", mark_ops, "Marks ops."))"}));
  const auto ir = sharded_program(1, {1, 2, 3});
  find_pass("mark_ops").run(*ir);
  for (const Op* op : ir->main_graph().ops()) EXPECT_EQ(op->context.name, "marked");
}

TEST(Additions, ADeviceIsAFolderAndALine) {
  EXPECT_EQ(added_to("pando/session/device_kinds.def"),
            (std::vector<std::string>{R"(PANDO_DEVICE_KIND("added", added_device_kind))"}));
  SessionOptions options;
  options.device = "added:1";
  EXPECT_EQ(run(options, kRow, 1), kRow);
}

TEST(Additions, ACommunicatorIsAPairOfFilesAndAFactory) {
  const auto outcomes = run_in_processes(2, [](ProcessMesh& mesh) {
    SessionOptions options;
    options.world = [&](const auto&) { return std::make_unique<ProcessWorld>(mesh, 600.0); };
    const auto own = kRows.begin() + 5 * mesh.rank();
    const Floats32 output = run(options, Floats32(own, own + 5), 2);
    return std::string(reinterpret_cast<const char*>(output.data()), 5 * sizeof(float));
  });
  for (const Outcome& outcome : outcomes) {
    ASSERT_EQ(outcome.error, "");
    EXPECT_EQ(std::memcmp(outcome.value.data(), kMean.data(), outcome.value.size()), 0);
  }
}

}  // namespace
}  // namespace pando::testing
