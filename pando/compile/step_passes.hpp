// What the compiler does with steps, in order.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "pando/steps/step_function.hpp"

namespace pando {

struct StepPass {
  std::string name;
  std::string doc;
  std::function<void(StepProgram&)> run;
};

const std::vector<StepPass>& all_step_passes();

/// Throws Error listing the known names when `name` is none.
const StepPass& find_step_pass(std::string_view name);

}  // namespace pando
