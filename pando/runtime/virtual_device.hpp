// One of the virtual devices that a replica's program runs on.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "pando/runtime/device.hpp"
#include "pando/runtime/host_staging.hpp"
#include "pando/runtime/stop_poll.hpp"

namespace pando {

/// Its queue, and what its thread waits and moves values with. That thread alone uses it, but for
/// the queue: others may wait for its events.
class alignas(64) VirtualDevice {
 public:
  /// `team` and `should_stop`: see StopPoll.
  VirtualDevice(Device& device, int index, const DeviceTeam* team,
                std::function<bool()> should_stop)
      : index_(index),
        queue_(device.make_queue(index)),
        stop_(team, std::move(should_stop)),
        to_host_(device),
        from_host_(device) {}

  int index() const { return index_; }
  Queue& queue() const { return *queue_; }
  StopPoll& stop() { return stop_; }
  const StopCheck& check() const { return stop_.check(); }
  /// For transfers that are done when their instruction ends.
  HostStaging& to_host() { return to_host_; }
  HostStaging& from_host() { return from_host_; }

  /// Returns when all that the queue was asked for is done.
  void finish() {
    if (!queue_->is_direct()) queue_->wait(queue_->record(), check());
  }

 private:
  const int index_;
  const std::unique_ptr<Queue> queue_;
  StopPoll stop_;
  HostStaging to_host_, from_host_;
};

}  // namespace pando
