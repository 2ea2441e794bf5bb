// Random programs on the fake device: the bits of the CPU, whenever its queues do their work.
//
// PANDO_FUZZ_SEED: the first seed; PANDO_FUZZ_GRAPHS: how many programs. `./dev fuzz N SEED
// device`.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "pando/base/error.hpp"
#include "pando/transforms/pipelining.hpp"
#include "tests/conformance/fake_device.hpp"
#include "tests/cpp/fuzz/harness.hpp"

namespace pando::testing {
namespace {

using fuzz::EngineSettings;
using fuzz::FuzzProgram;

constexpr int kVirtualDevices = 3;
/// Files are slow to make.
constexpr std::uint64_t kProgramsPerFileTier = 3;

/// What the two devices differ in; empty when they give the same bits.
std::string difference(const FuzzProgram& program, std::uint64_t seed, EngineSettings settings) {
  const std::vector<fuzz::NamedBytes> inputs = fuzz::random_inputs(program);
  const fuzz::Results wanted = run_engine(program, inputs, settings);
  settings.device = str_cat("fake:", seed);
  return bit_difference(program, run_engine(program, inputs, settings), wanted);
}

/// A folder that goes with the object.
struct Folder {
  std::string path = std::filesystem::temp_directory_path() / str_cat("pando_fake_", ::getpid());
  Folder() { std::filesystem::create_directories(path); }
  ~Folder() { std::filesystem::remove_all(path); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
};

std::string check_pipeline(std::uint64_t seed) {
  const FuzzProgram program = fuzz::random_pipeline(seed);
  pipeline(program.ir->main_graph(), program.stages, program.steps, {});
  return difference(program, seed, {fuzz::kPipelineDevices});
}

std::string check(std::uint64_t seed) {
  if (fuzz::is_pipeline(seed)) return check_pipeline(seed);
  // Calls are kept in every other program.
  const FuzzProgram one = fuzz::random_program(seed, seed % 2 == 0);
  std::string text = difference(one, seed, {1});
  if (!text.empty()) return "one device: " + text;
  const FuzzProgram several = fuzz::random_program(seed, seed % 2 != 0);
  place_at_random(several, kVirtualDevices);
  text = difference(several, seed, {kVirtualDevices});
  if (!text.empty()) return "several devices: " + text;
  if (one.ir->remote_buffers().empty() || seed % kProgramsPerFileTier != 0) return {};
  const Folder folder;
  text = difference(one, seed, {.num_threads = 1, .remote_folder = folder.path});
  if (!text.empty()) return "remote buffers in files: " + text;
  text = difference(several, seed, {.num_threads = kVirtualDevices, .remote_folder = folder.path});
  return text.empty() ? text : "remote buffers in files, several devices: " + text;
}

/// Parts that a test driver can run side by side.
class RandomProgramsOnTheFakeDevice : public ::testing::TestWithParam<std::uint64_t> {};

constexpr std::uint64_t kParts = 4;

TEST_P(RandomProgramsOnTheFakeDevice, GiveTheBitsOfTheCpu) {
  add_fake_device_kind();
  const auto [first, end] = fuzz::seed_range(160);
  for (std::uint64_t seed = first + GetParam(); seed < end; seed += kParts) {
    std::string fault;
    try {
      fault = check(seed);
    } catch (const std::exception& error) {
      fault = error.what();
    }
    fuzz::report_progress(!fault.empty());
    EXPECT_EQ(fault, "") << "seed " << seed << "; repeat with: PANDO_FUZZ_SEED=" << seed
                         << " PANDO_FUZZ_GRAPHS=1 pando_tests --gtest_filter='*OnTheFakeDevice*'";
  }
}

INSTANTIATE_TEST_SUITE_P(Parts, RandomProgramsOnTheFakeDevice,
                         ::testing::Range(std::uint64_t{0}, kParts));

}  // namespace
}  // namespace pando::testing
