// What each virtual device runs, and where it waits for others.
#pragma once

#include "pando/steps/step_function.hpp"

namespace pando {

/// Gives functions that run on several devices a stream for each (see DeviceStreams).
void separate_devices(StepProgram& program);

}  // namespace pando
