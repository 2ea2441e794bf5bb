#include "tests/cpp/worlds/worlds.hpp"

#include <exception>

#include "pando/base/error.hpp"
#include "pando/runtime/replica_team.hpp"
#include "pando/runtime/thread_world.hpp"

namespace pando::testing {
namespace {

using Work = std::function<std::string(Communicator&, int)>;

/// Runs the local ranks of `world`; their outcomes, by local rank.
std::vector<Outcome> run_local(World& world, int runs, const Work& work) {
  ReplicaTeam team(world, {});
  std::vector<Outcome> outcomes(world.local_ranks().size());
  for (int run = 0; run < runs; ++run) {
    const auto note = [&](int local) {
      Outcome& outcome = outcomes[static_cast<std::size_t>(local)];
      outcome = {};
      try {
        outcome.value = work(team.communicator(local), run);
      } catch (const std::exception& error) {
        outcome.error = error.what();
        throw;
      }
    };
    try {
      team.run(note);
    } catch (const Error&) {
      continue;  // noted
    }
  }
  return outcomes;
}

}  // namespace

std::string name_of(WorldKind kind) { return kind == WorldKind::Threads ? "threads" : "processes"; }

std::vector<Outcome> run_ranks(WorldKind kind, int size, double timeout_seconds, int runs,
                               const Work& work) {
  if (kind == WorldKind::Threads) {
    ThreadWorld world({.size = size, .timeout_seconds = timeout_seconds});
    return run_local(world, runs, work);
  }
  return run_in_processes(size, [&](ProcessMesh& mesh) {
    ProcessWorld world(mesh, timeout_seconds);
    const Outcome outcome = run_local(world, runs, work).front();
    if (!outcome.error.empty()) throw RuntimeFault(outcome.error);
    return outcome.value;
  });
}

std::vector<Outcome> run_ranks(WorldKind kind, int size, double timeout_seconds,
                               const RankWork& work) {
  return run_ranks(kind, size, timeout_seconds, 1,
                   [&](Communicator& communicator, int) { return work(communicator); });
}

}  // namespace pando::testing
