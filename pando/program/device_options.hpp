// What only one kind of device has to choose.
#pragma once

#include <map>
#include <string>

namespace pando {

/// Values by the names of the choices, both as the kind of device documents them.
using DeviceOptions = std::map<std::string, std::string>;

}  // namespace pando
