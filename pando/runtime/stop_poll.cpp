#include "pando/runtime/stop_poll.hpp"

#include <utility>

#include "pando/runtime/run_profile.hpp"

namespace pando {
namespace {

constexpr double kSecondsPerPoll = 0.02;

}  // namespace

StopPoll::StopPoll(const DeviceTeam* team, std::function<bool()> should_stop)
    : team_(team),
      should_stop_(std::move(should_stop)),
      can_ask_(should_stop_ != nullptr),
      check_([this] {
        if (team_ != nullptr && team_->stopped()) throw_stopped();
        if (can_ask_ && should_stop_()) throw Interrupted();
      }) {}

void StopPoll::throw_stopped() { throw DeviceStopped(); }

void StopPoll::poll_user() {
  polls_ = 0;
  const double now = steady_seconds();
  if (now - last_poll_ < kSecondsPerPoll) return;
  last_poll_ = now;
  if (should_stop_()) throw Interrupted();
}

}  // namespace pando
