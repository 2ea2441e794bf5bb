// When a virtual device that runs or waits must end.
#pragma once

#include <functional>

#include "pando/runtime/device_team.hpp"
#include "pando/runtime/waiting.hpp"

namespace pando {

/// Throws Interrupted when the user wants to stop, what `should_stop` throws, and DeviceStopped
/// when another device of the replica failed.
class StopPoll {
 public:
  /// `team`: nullptr if the replica has one device. `should_stop` may be empty.
  StopPoll(const DeviceTeam* team, std::function<bool()> should_stop);
  StopPoll(const StopPoll&) = delete;
  StopPoll& operator=(const StopPoll&) = delete;

  /// For calls that wait.
  const StopCheck& check() const { return check_; }
  /// To be called before every instruction; looks at the clock now and then only.
  void poll() {
    if (team_ != nullptr && team_->stopped()) [[unlikely]]
      throw_stopped();
    if (can_ask_ && ++polls_ >= kInstructionsPerPoll) poll_user();
  }

 private:
  static constexpr int kInstructionsPerPoll = 16;

  [[noreturn]] static void throw_stopped();
  void poll_user();

  const DeviceTeam* team_;
  std::function<bool()> should_stop_;
  const bool can_ask_;
  const StopCheck check_;
  int polls_ = 0;
  double last_poll_ = 0;
};

}  // namespace pando
