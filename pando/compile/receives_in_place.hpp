// Values of other devices that are read where they lie.
#pragma once

#include "pando/steps/step_function.hpp"

namespace pando {

/// Where devices share memory, lets a device read variables, constants and arguments of another one
/// in place, instead of receiving them, if nothing in the function writes them: so neither device
/// ever waits for the other to have done with them. Other values are received, so that their sender
/// may go on to the next ones.
void use_receives_in_place(StepProgram& program);

}  // namespace pando
