// The kinds of worlds that communicators are tested on.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "pando/runtime/communicator.hpp"
#include "tests/cpp/worlds/process_world.hpp"

namespace pando::testing {

enum class WorldKind {
  Threads,    // of one process
  Processes,  // with a rank each
  Mixed,      // processes with two ranks each, which are threads
};
inline constexpr WorldKind kWorldKinds[] = {WorldKind::Threads, WorldKind::Processes,
                                            WorldKind::Mixed};
/// For the names of tests.
std::string name_of(WorldKind kind);

/// What a rank does; it returns something for the test to look at.
using RankWork = std::function<std::string(Communicator&)>;

constexpr double kLongTime = 600.0;

/// Calls work(communicator) on every rank of a new world. By rank: what it returned, or its error.
std::vector<Outcome> run_ranks(WorldKind kind, int size, double timeout_seconds,
                               const RankWork& work);
/// The same `runs` times in one world; the outcomes of the last.
std::vector<Outcome> run_ranks(WorldKind kind, int size, double timeout_seconds, int runs,
                               const std::function<std::string(Communicator&, int)>& work);

}  // namespace pando::testing
