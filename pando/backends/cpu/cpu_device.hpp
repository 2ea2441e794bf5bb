// The host CPU as a device: its queues are direct.
#pragma once

#include <memory>

#include "pando/runtime/device.hpp"

namespace pando {

/// Copies use at most `num_threads` threads.
std::unique_ptr<Device> make_cpu_device(int num_threads);

}  // namespace pando
