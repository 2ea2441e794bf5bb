// A pass over steps that is there to be added.
#pragma once

#include "pando/steps/step_function.hpp"

namespace pando::testing {

/// Puts "marked " in front of the names of functions.
void mark_functions(StepProgram& program);

}  // namespace pando::testing
