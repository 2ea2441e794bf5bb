// The threads of local replicas: errors of runs, and interrupts that end every wait.
#include "pando/runtime/replica_team.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <thread>

#include "pando/base/error.hpp"
#include "pando/runtime/thread_world.hpp"
#include "tests/cpp/error_of.hpp"

namespace pando {
namespace {

using testing::error_of;

constexpr double kLongTime = 600.0;

/// A team of threads that are all replicas of a world.
struct Replicas {
  explicit Replicas(int size, std::function<bool()> should_stop = {},
                    double timeout_seconds = kLongTime)
      : world({.size = size, .timeout_seconds = timeout_seconds}),
        team(world, std::move(should_stop)) {}
  ThreadWorld world;
  ReplicaTeam team;
};

/// As an engine between instructions.
void poll(ReplicaTeam& team, int replica) {
  const auto should_stop = team.should_stop(replica);
  while (!should_stop()) std::this_thread::yield();
}

TEST(ReplicaTeam, FailureStopsTheOthers) {
  Replicas replicas(4);
  ReplicaTeam& team = replicas.team;
  for (int failing = 0; failing < 4; ++failing) {
    const std::string error = error_of<RuntimeFault>([&] {
      team.run([&](int replica) {
        team.communicator(replica).barrier();
        if (replica == failing) throw RuntimeFault("a fault");
        team.communicator(replica).barrier();
      });
    });
    EXPECT_EQ(error, str_cat("replica ", failing, ": a fault"));
  }
  team.run([&](int replica) { team.communicator(replica).barrier(); });
}

TEST(ReplicaTeam, FailureStopsAReplicaThatPolls) {
  Replicas replicas(2);
  const std::string error = error_of<RuntimeFault>([&] {
    replicas.team.run([&](int replica) {
      if (replica == 1) throw RuntimeFault("a fault");
      poll(replicas.team, replica);
    });
  });
  EXPECT_EQ(error, "replica 1: a fault");
}

TEST(ReplicaTeam, OtherErrorsKeepTheirType) {
  Replicas replicas(2);
  EXPECT_THROW(replicas.team.run([&](int replica) {
    if (replica == 1) throw OutOfMemory("full", "summary");
  }),
               OutOfMemory);
  EXPECT_THROW(replicas.team.run([&](int replica) {
    if (replica == 1) throw std::bad_alloc();
  }),
               std::bad_alloc);
}

TEST(ReplicaTeam, AnErrorThatNamesItsReplicaIsNotNumberedTwice) {
  Replicas replicas(2, {}, 0.01);
  const std::string error = error_of<RuntimeFault>([&] {
    replicas.team.run([&](int replica) {
      if (replica == 0) return replicas.team.communicator(replica).barrier();
      poll(replicas.team, replica);
    });
  });
  EXPECT_EQ(error, "replica 0 waited 0.01 seconds for replica 1 in a barrier: it did not arrive");
}

TEST(ReplicaTeam, AnInterruptEndsEveryWait) {
  for (int waiting : {0, 1}) {
    std::atomic<bool> interrupt{false};
    Replicas replicas(2, [&] { return interrupt.load(); });
    const auto work = [&](int replica) {
      if (replica == waiting) {
        interrupt = true;
        return replicas.team.communicator(replica).barrier();
      }
      poll(replicas.team, replica);
      throw Interrupted();
    };
    EXPECT_THROW(replicas.team.run(work), Interrupted);
  }
}

TEST(ReplicaTeam, AnInterruptEndsTheWaitForTheOthers) {
  std::atomic<bool> interrupt{false};
  Replicas replicas(2, [&] { return interrupt.load(); });
  const auto work = [&](int replica) {
    if (replica == 0) return;
    interrupt = true;
    poll(replicas.team, replica);
  };
  EXPECT_THROW(replicas.team.run(work), Interrupted);
}

}  // namespace
}  // namespace pando
