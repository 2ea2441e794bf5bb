// Where storages lie in the frames of functions.
#pragma once

#include "pando/steps/step_function.hpp"

namespace pando {

/// Gives every local storage that is used its offset in the frame of its device, and every function
/// the sizes of its frames, in which the frames of what it calls lie: a call gets one on each
/// device on which the callee has temporaries.
void plan_frames(StepProgram& program);

}  // namespace pando
