// Random programs on replicas that are processes, against the same replicas as threads: same bits.
//
// PANDO_FUZZ_SEED: the first program; PANDO_FUZZ_GRAPHS: how many. `./dev fuzz N SEED processes`.
#include <gtest/gtest.h>

#include <sstream>

#include "pando/base/error.hpp"
#include "pando/base/hash.hpp"
#include "tests/cpp/fuzz/harness.hpp"
#include "tests/cpp/worlds/process_world.hpp"

namespace pando::fuzz {
namespace {

using testing::Outcome;
using testing::ProcessMesh;

constexpr int kReplicas = 2;
constexpr double kTimeout = 60.0;

/// The seed of the n-th program of two replicas.
std::uint64_t seed_of(std::uint64_t n) { return 16 * (n / 3) + 4 * (n % 3) + 5; }

/// Replicas that go different ways have different variables, and the host gets those of the first
/// local one: they are compared on replica 0, which is that in both worlds.
std::uint64_t hash_of(const Results& results, int replica) {
  std::string text;
  const auto append = [&](const NamedBytes& values) {
    for (const auto& [id, bytes] : values) {
      text += str_cat(id, " ", bytes.size(), ":");
      text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    }
  };
  for (const NamedBytes& run : results.outputs) append(run);
  if (replica == 0) append(results.variables);
  return hash64(text);
}

struct Range {
  std::uint64_t begin, end;
};

/// One line per program: what `describe` makes of what it gives.
template <class Describe>
std::string lines_of(const Range& programs, const WorldFactory& world, const Describe& describe) {
  std::string lines;
  for (std::uint64_t n = programs.begin; n < programs.end; ++n) {
    const FuzzProgram program = random_program(seed_of(n), n % 2 == 0);
    internal_check(program.ir->replication_factor == kReplicas, "not a program of two replicas");
    const std::vector<NamedBytes> inputs = random_inputs(program);
    lines += describe(program, run_engine(program, inputs, {.world = world})) + "\n";
    if (::testing::Test::HasFailure()) throw InternalError(str_cat("seed ", seed_of(n)));
  }
  return lines;
}

std::vector<std::string> split_lines(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

/// By replica, its lines as processes give them, then as threads do.
void compare_worlds(const Range& programs) {
  const std::vector<Outcome> processes =
      testing::run_in_processes(kReplicas, [&](ProcessMesh& mesh) {
        const auto world = [&](const WorldSettings&) {
          return std::make_unique<testing::ProcessWorld>(mesh, kTimeout);
        };
        return lines_of(programs, world, [&](const FuzzProgram&, const Results& results) {
          return str_cat(hash_of(results, mesh.rank()));
        });
      });
  // In a process too: what a library starts threads for does not survive the next fork.
  const Outcome threads = testing::run_in_processes(1, [&](ProcessMesh&) {
    return lines_of(programs, {}, [](const FuzzProgram& program, const Results& results) {
      return str_cat(hash_of(part_of_replica(program, results, 0), 0), " ",
                     hash_of(part_of_replica(program, results, 1), 1));
    });
  })[0];
  for (const Outcome& outcome : processes) ASSERT_EQ(outcome.error, "");
  ASSERT_EQ(threads.error, "");
  const auto first = split_lines(processes[0].value), second = split_lines(processes[1].value),
             wanted = split_lines(threads.value);
  ASSERT_EQ(wanted.size(), programs.end - programs.begin);
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const std::string given = str_cat(first[i], " ", second[i]);
    EXPECT_EQ(given, wanted[i]) << "program " << programs.begin + i << ", seed "
                                << seed_of(programs.begin + i);
    report_progress(given != wanted[i]);
  }
}

TEST(RandomWorlds, ProcessesGiveTheBitsOfThreads) {
  const auto [first, end] = seed_range(60);
  constexpr std::uint64_t kAtOnce = 100;
  for (std::uint64_t n = first; n < end; n += kAtOnce) {
    compare_worlds({n, std::min(end, n + kAtOnce)});
    if (HasFatalFailure()) break;
  }
}

}  // namespace
}  // namespace pando::fuzz
