#include "tests/cpp/worlds/worlds.hpp"

#include <algorithm>
#include <exception>
#include <sstream>
#include <utility>

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

/// The outcomes of the ranks of a process as one text, which must not hold characters 0.
std::string packed(const std::vector<Outcome>& outcomes) {
  std::string text;
  for (const Outcome& outcome : outcomes) {
    text += outcome.value + '\0' + outcome.error + '\0';
  }
  return text;
}

/// A process that died has nothing to say of its ranks.
std::vector<Outcome> unpacked(const Outcome& process, int ranks) {
  if (!process.error.empty()) {
    return std::vector<Outcome>(static_cast<std::size_t>(ranks), process);
  }
  std::vector<Outcome> outcomes;
  std::istringstream text(process.value);
  for (int rank = 0; rank < ranks; ++rank) {
    Outcome& outcome = outcomes.emplace_back();
    std::getline(text, outcome.value, '\0');
    std::getline(text, outcome.error, '\0');
  }
  return outcomes;
}

}  // namespace

std::string name_of(WorldKind kind) {
  switch (kind) {
    case WorldKind::Threads:
      return "threads";
    case WorldKind::Processes:
      return "processes";
    case WorldKind::Mixed:
      return "mixed";
  }
  throw InternalError("a world of no known kind");
}

std::vector<Outcome> run_ranks(WorldKind kind, int size, double timeout_seconds, int runs,
                               const Work& work) {
  if (kind == WorldKind::Threads) {
    ThreadWorld world({.size = size, .timeout_seconds = timeout_seconds});
    return run_local(world, runs, work);
  }
  const int ranks_each = kind == WorldKind::Mixed ? 2 : 1;
  const auto processes = run_in_processes(size, ranks_each, [&](const ProcessMeshes& meshes) {
    ProcessWorld world(meshes, timeout_seconds);
    return packed(run_local(world, runs, work));
  });
  std::vector<Outcome> outcomes;
  for (const Outcome& process : processes) {
    const int ranks = std::min(ranks_each, size - static_cast<int>(outcomes.size()));
    for (Outcome& outcome : unpacked(process, ranks)) outcomes.push_back(std::move(outcome));
  }
  return outcomes;
}

std::vector<Outcome> run_ranks(WorldKind kind, int size, double timeout_seconds,
                               const RankWork& work) {
  return run_ranks(kind, size, timeout_seconds, 1,
                   [&](Communicator& communicator, int) { return work(communicator); });
}

}  // namespace pando::testing
