// The memory that kernels use while they run.
#pragma once

#include "pando/program/target.hpp"
#include "pando/steps/step_function.hpp"

namespace pando {

/// Lets `target` prepare every kernel that runs, and gives each instruction a storage of its own
/// for the scratch memory that its kernel needs. Throws Error (kernels that the target cannot run),
/// which names the op.
void prepare_kernels(StepProgram& program, Target& target);

}  // namespace pando
