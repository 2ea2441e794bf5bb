// The threads of the replicas of one session.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "pando/runtime/thread_exchange.hpp"

namespace pando {

/// Runs one piece of work per replica: replica 0 on the calling thread, each other one on a thread
/// of its own that lives as long as the team.
class ReplicaTeam {
 public:
  /// `should_stop` (may be empty) is asked on the calling thread, also while it waits.
  ReplicaTeam(int replicas, double timeout_seconds, std::function<bool()> should_stop);
  ~ReplicaTeam();
  ReplicaTeam(const ReplicaTeam&) = delete;
  ReplicaTeam& operator=(const ReplicaTeam&) = delete;

  int size() const { return replicas_; }
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
  void serve(int replica);
  void run_one(int replica);
  void wait_for_others();
  void throw_first_error();

  int replicas_;
  std::function<bool()> should_stop_;
  ThreadExchange exchange_;
  std::vector<std::unique_ptr<Communicator>> communicators_;
  std::vector<std::exception_ptr> errors_;

  std::mutex mutex_;
  std::condition_variable started_, finished_;
  const std::function<void(int)>* work_ = nullptr;
  std::uint64_t generation_ = 0;
  int running_ = 0;
  bool closing_ = false;
  std::vector<std::thread> threads_;  // last: they use the rest
};

}  // namespace pando
