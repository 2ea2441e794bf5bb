#include "pando/compile/step_passes.hpp"

namespace pando {

#define PANDO_STEP_PASS(name, function, doc) void function(StepProgram& program);
#define PANDO_TARGET_PASS(name, function, doc) void function(StepProgram& program, Target& target);
#include "pando/compile/step_passes.def"

const std::vector<StepPass>& all_step_passes() {
  static const std::vector<StepPass> passes = {
#define PANDO_STEP_PASS(name, function, doc) \
  {name, doc, [](StepProgram& program, Target&) { function(program); }},
#define PANDO_TARGET_PASS(name, function, doc) {name, doc, function},
#include "pando/compile/step_passes.def"
  };
  return passes;
}

const StepPass& find_step_pass(std::string_view name) {
  return find_named_pass(all_step_passes(), "pass over steps", name);
}

}  // namespace pando
