#include "pando/compile/step_passes.hpp"

#include "pando/base/error.hpp"
#include "pando/compile/early_loads.hpp"
#include "pando/compile/frame_plan.hpp"
#include "pando/compile/loads_in_place.hpp"
#include "pando/compile/reuse_dying_storages.hpp"
#include "pando/compile/separate_devices.hpp"
#include "pando/compile/storage_lifetimes.hpp"

namespace pando {

const std::vector<StepPass>& all_step_passes() {
  static const std::vector<StepPass> passes = {
      // Before loads: a row that is changed in place and stored again needs no copy.
      {"reuse_dying_storages", "Writes results over inputs that die.", reuse_dying_storages},
      {"early_loads", "Starts remote loads before the program asks for them.", start_loads_early},
      // After early loads, each of which has a place of its own to go to.
      {"loads_in_place", "Uses loaded rows where they lie in memory.", use_loads_in_place},
      // All instructions are there now, so those that came without a device can take one.
      {"assign_devices", "Gives every instruction a device.",
       [](StepProgram& program) { assign_devices(program); }},
      {"lifetimes", "Finds from where to where storages are alive.", find_lifetimes},
      {"plan_frames", "Gives storages their offsets in frames.", plan_frames},
      // Storages that follow each other in one place make devices wait: their places must be known.
      {"separate_devices", "Cuts functions into a stream for each device.",
       [](StepProgram& program) { separate_devices(program); }},
  };
  return passes;
}

const StepPass& find_step_pass(std::string_view name) {
  std::string known;
  for (const StepPass& pass : all_step_passes()) {
    if (pass.name == name) return pass;
    known += (known.empty() ? "" : ", ") + pass.name;
  }
  throw Error(str_cat("there is no pass over steps '", name, "'; the passes are ", known));
}

}  // namespace pando
