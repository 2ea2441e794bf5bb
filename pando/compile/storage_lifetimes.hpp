// Who uses each storage, and when.
#pragma once

#include "pando/steps/step_function.hpp"

namespace pando {

/// Finds between which instructions storages are alive and which several devices use. What goes
/// from one device to another stays until its device makes the next such storage: so two take
/// turns, and the device may go on while the other one has not taken the last.
void find_lifetimes(StepProgram& program);

}  // namespace pando
