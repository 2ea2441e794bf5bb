// The threads of the virtual devices of one replica.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <stdexcept>
#include <vector>

#include "pando/runtime/thread_team.hpp"

namespace pando {

/// Ends a device whose run is in vain because another one failed. Never leaves the runtime.
class DeviceStopped : public std::runtime_error {
 public:
  DeviceStopped() : std::runtime_error("another device failed") {}
};

/// Runs one piece of work per device: device 0 on the calling thread, each other one on a thread of
/// its own that lives as long as the team.
class DeviceTeam {
 public:
  /// `should_stop` (may be empty) is asked on the calling thread, also while it waits: true ends
  /// the run with Interrupted. `on_failure` (may be empty) is called with the error when a device
  /// fails; it must end what the others may wait for elsewhere. `spins`: see team_spins.
  DeviceTeam(int devices, int spins, std::function<bool()> should_stop,
             std::function<void(const std::exception_ptr&)> on_failure);
  DeviceTeam(const DeviceTeam&) = delete;
  DeviceTeam& operator=(const DeviceTeam&) = delete;

  /// Calls work(device) for every device at the same time and returns when all have ended. If one
  /// throws, the others stop at their next wait or check; then the error of the lowest device that
  /// failed by itself is thrown.
  void run(const std::function<void(int)>& work);

  /// Device `from` tells device `to` that it has come so far: what it wrote before is seen by
  /// `to` after the wait that takes this signal.
  void signal(int from, int to);
  /// Device `device` takes the oldest signal of device `from`, for which it waits if need be.
  /// Throws DeviceStopped when a device failed; on device 0 Interrupted.
  void wait(int device, int from);
  /// Device `from` tells device `to` yes or no, which `to` takes in turn, as signals, which these
  /// do not count among.
  void decide(int from, int to, bool yes);
  bool decision(int device, int from);
  bool stopped() const { return stopped_.load(std::memory_order_relaxed); }

 private:
  /// Signals of one device to another one: sent by the one, taken by the other.
  struct alignas(64) Channel {
    std::atomic<std::uint64_t> sent{0};
    alignas(64) std::uint64_t taken = 0;
  };

  std::size_t pair(int from, int to) const {
    return static_cast<std::size_t>(from) * static_cast<std::size_t>(devices_) +
           static_cast<std::size_t>(to);
  }
  void send(Channel& channel);
  void take(Channel& channel, int device);
  void stop(const std::exception_ptr& error);
  void sleep_for(const Channel& channel, std::uint64_t wanted, int device);

  int devices_;
  int spins_;
  std::function<bool()> should_stop_;
  std::function<void(const std::exception_ptr&)> on_failure_;
  // By pair of devices.
  std::vector<Channel> channels_, decision_channels_;
  std::vector<std::deque<bool>> decisions_;  // guarded by mutex_
  std::atomic<bool> stopped_{false};
  std::atomic<int> sleepers_{0};
  std::mutex mutex_;
  std::condition_variable signalled_;
  ThreadTeam team_;  // last: its threads use the rest
};

}  // namespace pando
