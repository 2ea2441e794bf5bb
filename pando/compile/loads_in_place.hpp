// Loads whose rows, where they lie in memory, are operands themselves.
#pragma once

#include "pando/steps/step_function.hpp"

namespace pando {

/// Lets rows of remote buffers and arrays of the host be operands, without copies, where nobody can
/// tell: such a load and the storage that it fills get a row.
void use_loads_in_place(StepProgram& program);

}  // namespace pando
