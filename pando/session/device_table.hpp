// The kinds of devices that a session can run on.
#pragma once

#include <string>

#include "pando/runtime/device_kind.hpp"

namespace pando {

/// The kind and the settings' argument of a device string, `kind` or `kind:argument`. Throws
/// ValueError, which lists the kinds.
DeviceKind device_kind(const std::string& device, DeviceSettings& settings);
/// Adds a kind beside those of device_kinds.def, or replaces one. Any thread.
void add_device_kind(const std::string& name, DeviceKind kind);

}  // namespace pando
