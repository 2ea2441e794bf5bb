// Threads that work on one thing together: the replicas of a session, the devices of a replica.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace pando {

/// Runs one piece of work per member: member 0 on the calling thread, each other one on a thread of
/// its own that lives as long as the team. Collects the error of every member.
class ThreadTeam {
 public:
  struct Hooks {
    /// May be empty. Asked on the calling thread while it waits for the others: true, or an
    /// exception, is a failure of member 0.
    std::function<bool()> should_stop;
    /// Called on the thread of a member that failed, with its error; must end what the others may
    /// wait for.
    std::function<void(int, const std::exception_ptr&)> on_failure;
    /// May be empty. Called on the thread of a member when its work has ended, well or not.
    std::function<void(int)> on_end;
  };

  /// `spins`: see team_spins. `members_are`: for people ("the replicas of a session"). Throws
  /// RuntimeFault when the system does not give the threads.
  ThreadTeam(int members, int spins, const char* members_are, Hooks hooks);
  ~ThreadTeam();
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

  int size() const { return members_; }

  /// Calls work(member) for every member at the same time and returns when all have ended. The
  /// errors by member, nullptr where there is none, are valid until the next run.
  const std::vector<std::exception_ptr>& run(const std::function<void(int)>& work);

 private:
  void serve(int member);
  void close();
  void run_one(int member);
  void fail(int member, std::exception_ptr error);
  void wait_for_others();

  int members_;
  int spins_;
  Hooks hooks_;
  std::vector<std::exception_ptr> errors_;
  std::atomic<bool> failed_{false};

  std::mutex mutex_;
  std::condition_variable started_, finished_;
  const std::function<void(int)>* work_ = nullptr;
  // Changed under the mutex, looked at also without.
  std::atomic<std::uint64_t> generation_{0};
  std::atomic<int> running_{0};
  std::atomic<bool> closing_{false};
  std::vector<std::thread> threads_;  // last: they use the rest
};

}  // namespace pando
