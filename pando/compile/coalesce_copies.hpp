// Values are made where a copy would put them.
#pragma once

#include "pando/steps/step_function.hpp"

namespace pando {

/// Removes contiguous copies of whole local storages: whatever uses the source uses the destination
/// instead. Only where nothing sees another value or needs more memory for it, and where a run that
/// is stopped leaves no value that the program never gave a variable or the row of a remote buffer.
void coalesce_copies(StepProgram& program);

}  // namespace pando
