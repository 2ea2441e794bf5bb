// Outputs take the memory of inputs that nothing needs any more.
#pragma once

#include "pando/steps/step_function.hpp"

namespace pando {

/// Lets an output of a kernel be the local storage of an input that dies there, where the kernel
/// may write the one over the other: see StepInstruction::in_place and, of Fused, KernelSpec.
void reuse_dying_storages(StepProgram& program);

}  // namespace pando
