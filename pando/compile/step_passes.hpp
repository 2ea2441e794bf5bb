// What the compiler does with steps, in order.
#pragma once

#include <string_view>
#include <vector>

#include "pando/base/named_pass.hpp"
#include "pando/program/target.hpp"
#include "pando/steps/step_function.hpp"

namespace pando {

using StepPass = NamedPass<StepProgram, Target>;

/// Those of step_passes.def.
const std::vector<StepPass>& all_step_passes();

/// Throws Error listing the known names when `name` is none.
const StepPass& find_step_pass(std::string_view name);

}  // namespace pando
