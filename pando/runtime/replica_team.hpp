// The threads of the replicas of one session.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "pando/runtime/thread_exchange.hpp"
#include "pando/runtime/thread_team.hpp"

namespace pando {

/// Runs one piece of work per replica: replica 0 on the calling thread, each other one on a thread
/// of its own that lives as long as the team.
class ReplicaTeam {
 public:
  /// `should_stop` (may be empty) is asked on the calling thread, also while it waits.
  ReplicaTeam(int replicas, double timeout_seconds, std::function<bool()> should_stop);
  ReplicaTeam(const ReplicaTeam&) = delete;
  ReplicaTeam& operator=(const ReplicaTeam&) = delete;

  int size() const { return team_.size(); }
  Communicator& communicator(int replica) {
    return *communicators_[static_cast<std::size_t>(replica)];
  }
  /// What an engine of replica `replica` asks between instructions: true to stop with Interrupted;
  /// throws ReplicaStopped when another replica failed.
  std::function<bool()> should_stop(int replica);

  /// Calls work(replica) for every replica at the same time and returns when all have ended. If one
  /// throws, the others stop at their next collective or poll; then the error of the lowest replica
  /// that failed by itself is thrown, with the replica's number.
  void run(const std::function<void(int)>& work);

 private:
  std::function<bool()> should_stop_;
  ThreadExchange exchange_;
  std::vector<std::unique_ptr<Communicator>> communicators_;
  ThreadTeam team_;  // last: its threads use the rest
};

}  // namespace pando
