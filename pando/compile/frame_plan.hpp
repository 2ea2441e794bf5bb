// Where storages lie in the frames of functions.
#pragma once

#include "pando/steps/step_function.hpp"

namespace pando {

/// Gives every local storage that is used its offset, and every function the size of its frame, in
/// which the frames of what it calls lie. Each device has a part of the frame of its own: a storage
/// takes the place of another one only if the same device used that first, so that devices seldom
/// wait for memory. A callee without temporaries gets no frame.
void plan_frames(StepProgram& program);

}  // namespace pando
