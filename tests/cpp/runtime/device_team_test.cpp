// Threads of virtual devices: order by signals, and every way to fail without a hang.
#include "pando/runtime/device_team.hpp"

#include <gtest/gtest.h>

#include <atomic>

#include "pando/base/error.hpp"
#include "pando/runtime/communicator.hpp"

namespace pando {
namespace {

TEST(DeviceTeam, WaitsTakeSignalsInOrder) {
  constexpr int kRounds = 2000;
  for (bool spin : {true, false}) {
    DeviceTeam team(3, spin, {}, {});
    for (int run = 0; run < 3; ++run) {
      // A value goes round; no device touches it out of turn.
      int value = 0;
      team.run([&](int device) {
        for (int i = 0; i < kRounds; ++i) {
          if (device != 0 || i > 0) team.wait(device, (device + 2) % 3);
          ASSERT_EQ(value, 3 * i + device);
          ++value;
          if (device != 2 || i + 1 < kRounds) team.signal(device, (device + 1) % 3);
        }
      });
      EXPECT_EQ(value, 3 * kRounds);
    }
  }
}

TEST(DeviceTeam, DecisionsComeInOrderAndApartFromSignals) {
  constexpr int kRounds = 2000;
  for (bool spin : {true, false}) {
    DeviceTeam team(3, spin, {}, {});
    for (int run = 0; run < 2; ++run) {
      team.run([&](int device) {
        for (int i = 0; i < kRounds; ++i) {
          if (device == 0) {
            // The signal of a round is sent before its decision, and taken after the next one.
            for (const int other : {1, 2}) {
              team.signal(0, other);
              team.decide(0, other, i % 3 == 0);
            }
          } else {
            ASSERT_EQ(team.decision(device, 0), i % 3 == 0);
            if (i > 0) team.wait(device, 0);
          }
        }
        if (device == 0) team.decide(0, 1, true);  // what nobody takes is gone in the next run
      });
    }
  }
}

TEST(DeviceTeam, DevicesRunAtTheSameTime) {
  DeviceTeam team(2, false, {}, {});
  team.run([&](int device) {
    // Each waits for the other: neither could go first alone.
    team.signal(device, 1 - device);
    team.wait(device, 1 - device);
  });
}

TEST(DeviceTeam, AnErrorOfOneDeviceEndsTheOthersWaits) {
  for (int failing = 0; failing < 3; ++failing) {
    for (bool spin : {true, false}) {
      int failures = 0;
      std::exception_ptr first;
      DeviceTeam team(3, spin, {}, [&](const std::exception_ptr& error) {
        static std::mutex mutex;
        const std::lock_guard lock(mutex);
        if (++failures == 1) first = error;
      });
      const auto work = [&](int device) {
        if (device == failing) throw RuntimeFault("broken");
        team.wait(device, failing);
      };
      EXPECT_THROW(team.run(work), RuntimeFault);
      EXPECT_EQ(failures, 3);
      // Whoever listens hears of the cause before it hears of those that stopped for it.
      EXPECT_THROW(std::rethrow_exception(first), RuntimeFault);
      std::atomic<int> done{0};
      team.run([&](int) { ++done; });
      EXPECT_EQ(done, 3);
    }
  }
}

TEST(DeviceTeam, TheErrorOfTheDeviceThatFailedByItselfIsThrown) {
  DeviceTeam team(3, true, {}, {});
  const auto work = [&](int device) {
    if (device == 2) throw RuntimeFault("broken");
    try {
      team.wait(device, 2);
    } catch (const DeviceStopped&) {
      if (device == 0) throw ReplicaStopped(1, "broken");  // as from a collective
      throw;
    }
  };
  EXPECT_THROW(team.run(work), RuntimeFault);
}

TEST(DeviceTeam, AnInterruptEndsAWaitAndTheEndOfARun) {
  std::atomic<bool> stop{false};
  DeviceTeam team(2, true, [&] { return stop.load(); }, {});
  const auto first_waits = [&](int device) {
    if (device == 0) return team.wait(0, 1);
    stop = true;
    team.wait(1, 0);
  };
  EXPECT_THROW(team.run(first_waits), Interrupted);
  stop = false;
  const auto first_has_ended = [&](int device) {
    if (device == 0) return;
    stop = true;
    team.wait(1, 0);
  };
  EXPECT_THROW(team.run(first_has_ended), Interrupted);
}

}  // namespace
}  // namespace pando
