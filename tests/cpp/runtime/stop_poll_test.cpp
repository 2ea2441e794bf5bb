#include "pando/runtime/stop_poll.hpp"

#include <gtest/gtest.h>

#include "pando/base/error.hpp"

namespace pando {
namespace {

constexpr int kManyInstructions = 1000;

TEST(StopPoll, WithoutUserAndTeamNothingStops) {
  StopPoll stop(nullptr, {});
  for (int i = 0; i < kManyInstructions; ++i) stop.poll();
  stop.check()();
}

TEST(StopPoll, InstructionsAskTheUserSeldomAndWaitsAlways) {
  int asked = 0;
  bool wanted = false;
  StopPoll stop(nullptr, [&] {
    ++asked;
    return wanted;
  });
  for (int i = 0; i < 15; ++i) stop.poll();
  EXPECT_EQ(asked, 0);
  stop.poll();
  EXPECT_EQ(asked, 1);
  stop.check()();
  EXPECT_EQ(asked, 2);
  wanted = true;
  EXPECT_THROW(stop.check()(), Interrupted);
}

TEST(StopPoll, AnInstructionOfTheUsersThreadIsInterrupted) {
  StopPoll stop(nullptr, [] { return true; });
  EXPECT_THROW(
      {
        for (int i = 0; i < kManyInstructions; ++i) stop.poll();
      },
      Interrupted);
}

TEST(StopPoll, EndsADeviceWhenAnotherOneFailed) {
  DeviceTeam team(2, 0, {}, {});
  StopPoll stop(&team, {});
  bool was_stopped = false, wait_was_stopped = false;
  const auto work = [&](int device) {
    if (device == 1) throw RuntimeFault("a test");
    while (!team.stopped()) {
    }
    try {
      stop.poll();
    } catch (const DeviceStopped&) {
      was_stopped = true;
    }
    try {
      stop.check()();
    } catch (const DeviceStopped&) {
      wait_was_stopped = true;
    }
  };
  EXPECT_THROW(team.run(work), RuntimeFault);
  EXPECT_TRUE(was_stopped);
  EXPECT_TRUE(wait_was_stopped);
}

}  // namespace
}  // namespace pando
