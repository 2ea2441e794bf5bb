// Kernels that nothing runs any more.
#pragma once

#include "pando/steps/step_function.hpp"

namespace pando {

/// Takes them out of the tables: the runtime prepares each kernel that is there.
void remove_unused_kernels(StepProgram& program);

}  // namespace pando
