// The host CPU as a kind of devices.
#pragma once

#include "pando/runtime/device_kind.hpp"

namespace pando {

/// It takes no argument. Options: see make_cpu_target.
DeviceKind cpu_device_kind();

}  // namespace pando
