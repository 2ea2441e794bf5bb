// Who uses each storage, and when.
#pragma once

#include "pando/steps/step_function.hpp"

namespace pando {

/// Gives instructions that no op asked for (copies of arguments) a device, calls the first device
/// of their callee, and each function the list of its devices.
void assign_devices(StepProgram& program);

/// Finds between which instructions storages are alive and which device uses them first. What goes
/// from one device to another stays until its device makes the next such storage: so two take
/// turns, and the device may go on while the other one has not taken the last.
void find_lifetimes(StepProgram& program);

/// Devices that run a part of `instruction`, ascending: of a call those of the callee.
std::vector<std::int32_t> devices_of(const StepProgram& program,
                                     const StepInstruction& instruction);

}  // namespace pando
