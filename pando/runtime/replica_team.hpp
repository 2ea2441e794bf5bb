// The threads of the replicas of one session.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "pando/runtime/thread_team.hpp"
#include "pando/runtime/world.hpp"

namespace pando {

/// Runs one piece of work per local replica of a world: the first on the calling thread, each other
/// one on a thread of its own that lives as long as the team.
class ReplicaTeam {
 public:
  /// The world must outlive the team. `should_stop` (may be empty) is asked on the calling thread,
  /// also while it waits.
  ReplicaTeam(World& world, std::function<bool()> should_stop);
  ReplicaTeam(const ReplicaTeam&) = delete;
  ReplicaTeam& operator=(const ReplicaTeam&) = delete;

  /// Connects local replica `local`, an index into World::local_ranks, with all ranks.
  Communicator& communicator(int local) { return *communicators_[static_cast<std::size_t>(local)]; }
  /// What an engine of local replica `local` asks between instructions: true to stop with
  /// Interrupted; throws ReplicaStopped when another replica failed.
  std::function<bool()> should_stop(int local);

  /// To be called by `run`'s work on every local replica. Throws RuntimeFault, naming replicas,
  /// unless `program`, a checksum, is the same in all processes.
  void check_same_program(int local, std::uint64_t program);
  /// Whether other processes run replicas too.
  bool has_replicas_elsewhere() const { return team_.size() < world_.size(); }

  /// Calls work(local) for every local replica at the same time and returns when all have ended. If
  /// one throws, the others stop at their next collective or poll, those of other processes too;
  /// then the error of the lowest local replica that failed by itself is thrown, with the replica's
  /// number. When only one elsewhere did, that is a RuntimeFault with its number and message.
  void run(const std::function<void(int)>& work);

 private:
  /// What one replica sends and gets when programs are compared: others may read it after it has
  /// failed.
  struct Comparison {
    Collective gather;
    std::int64_t own = 0;
    std::vector<std::int64_t> all;
  };

  int rank_of(int local) const { return world_.local_ranks()[static_cast<std::size_t>(local)]; }

  World& world_;
  std::function<bool()> should_stop_;
  std::vector<std::unique_ptr<Communicator>> communicators_;
  std::vector<Comparison> comparisons_;
  ThreadTeam team_;  // last: its threads use the rest
};

}  // namespace pando
