// What the compiler does with steps, in order.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "pando/base/named_pass.hpp"
#include "pando/program/target.hpp"
#include "pando/steps/step_function.hpp"

namespace pando {

/// Most passes are the same for every target.
struct StepPass {
  using Run = std::function<void(StepProgram&, Target&)>;

  StepPass(std::string pass_name, std::string pass_doc, Run pass_run)
      : name(std::move(pass_name)), doc(std::move(pass_doc)), run(std::move(pass_run)) {}
  StepPass(std::string pass_name, std::string pass_doc, std::function<void(StepProgram&)> pass_run)
      : StepPass(std::move(pass_name), std::move(pass_doc),
                 [run = std::move(pass_run)](StepProgram& program, Target&) { run(program); }) {}

  std::string name;
  std::string doc;
  Run run;
};

const std::vector<StepPass>& all_step_passes();

/// Throws Error listing the known names when `name` is none.
const StepPass& find_step_pass(std::string_view name);

}  // namespace pando
