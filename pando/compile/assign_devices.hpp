// Where instructions run, and in whose memory storages lie.
#pragma once

#include "pando/steps/step_function.hpp"

namespace pando {

/// Gives instructions that no op asked for (copies of arguments) a device, calls the first device
/// of their callee, each function the list of its devices, and each storage the device that uses it
/// first: an argument and a variable that of the first function, for all of its callers and users.
/// Persistent memory becomes a block for each device.
void assign_devices(StepProgram& program);

}  // namespace pando
