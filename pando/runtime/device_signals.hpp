// The signals by which the virtual devices of a replica wait for each other.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "pando/program/program.hpp"
#include "pando/runtime/device_team.hpp"
#include "pando/runtime/run_profile.hpp"
#include "pando/runtime/virtual_device.hpp"

namespace pando {

/// A signal goes from thread to thread and carries a point of the sender's queue, behind which the
/// receiver's queue goes on.
class DeviceSignals {
 public:
  /// Keeps references to all of them. `profile` may be nullptr.
  DeviceSignals(DeviceTeam& team, const std::vector<std::unique_ptr<VirtualDevice>>& devices,
                RunProfile* profile);

  /// See DeviceTeam::signal and DeviceTeam::wait.
  void signal(int device, int to);
  void wait(int device, int from);
  /// The decision of one device about a loop, for each other one in turn: decisions come in the
  /// order in which they were made, apart from signals.
  void decide(int device, int to, bool yes) { team_.decide(device, to, yes); }
  bool decision(int device, int from);
  /// Returns when each of `devices`, of which `device` is one, has done all that it was asked for.
  void meet(const std::vector<std::int32_t>& devices, int device);
  /// Sends for the first iteration of a loop, which has none before it to wait for.
  void before_loop(const Function& body, int device);
  /// Takes the signals of a loop's last iteration, which has none after it to take them.
  void after_loop(const Function& body, int device);

 private:
  void take(int device, int from);

  DeviceTeam& team_;
  const std::vector<std::unique_ptr<VirtualDevice>>& devices_;
  /// By device: its queue's latest point that was signalled to another one.
  std::vector<std::atomic<Queue::Event>> signalled_;
  RunProfile* profile_;
};

}  // namespace pando
