// From steps to the Program that the runtime reads.
#pragma once

#include "pando/steps/step_function.hpp"

namespace pando {

/// Replaces storages by places. The steps must be planned; their tables move into the result, whose
/// memory report is left empty.
Program resolve(StepProgram& steps);

}  // namespace pando
