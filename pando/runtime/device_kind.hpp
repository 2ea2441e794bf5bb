// What a kind of devices consists of.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "pando/program/device_options.hpp"
#include "pando/program/target.hpp"
#include "pando/runtime/device.hpp"

namespace pando {

struct DeviceSettings {
  /// What follows the colon of the device string, as in `kind:argument`.
  std::string argument;
  /// Worker threads of each kernel; 0: one per core.
  int num_threads = 0;
  /// Told to the target, which refuses those that it does not know.
  DeviceOptions options = {};
};

/// How to make what a program is compiled for, and what runs it. A session makes one of each for
/// every replica: targets when it is made, devices while it is attached.
struct DeviceKind {
  std::function<std::shared_ptr<Target>(const DeviceSettings&)> make_target;
  std::function<std::unique_ptr<Device>(const DeviceSettings&, const Target&)> make_device;
};

}  // namespace pando
