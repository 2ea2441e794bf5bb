// Steps as text, which step_parser.hpp reads.
#pragma once

#include <string>

#include "pando/steps/step_function.hpp"

namespace pando {

/// The whole program. With a `#` after instructions stands what they come from.
std::string print_steps(const StepProgram& program);

}  // namespace pando
