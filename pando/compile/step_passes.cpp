#include "pando/compile/step_passes.hpp"

#include "pando/compile/absorb_products.hpp"
#include "pando/compile/assign_devices.hpp"
#include "pando/compile/coalesce_copies.hpp"
#include "pando/compile/early_loads.hpp"
#include "pando/compile/frame_plan.hpp"
#include "pando/compile/insert_transfers.hpp"
#include "pando/compile/loads_in_place.hpp"
#include "pando/compile/prepare_kernels.hpp"
#include "pando/compile/receives_in_place.hpp"
#include "pando/compile/reuse_dying_storages.hpp"
#include "pando/compile/separate_devices.hpp"
#include "pando/compile/storage_lifetimes.hpp"
#include "pando/compile/unused_kernels.hpp"

namespace pando {

const std::vector<StepPass>& all_step_passes() {
  static const std::vector<StepPass> passes = {
      // First: later a result may be in the place of another one, and its matrices changed.
      {"absorb_products", "Lets kernels compute the matrix products that they read.",
       absorb_products},
      // Before anything is placed: scratch memory is.
      {"prepare_kernels", "Gives kernels the scratch memory that they need.", prepare_kernels},
      // Early: a transfer that has become two steps is no longer seen as one that makes a value.
      {"coalesce_copies", "Makes values where a copy would put them.", coalesce_copies},
      // After copies: a value that took another's storage is no longer one that was made at once.
      {"reuse_dying_storages", "Writes results over inputs that die.", reuse_dying_storages},
      {"early_loads", "Starts remote loads before the program asks for them.", start_loads_early},
      // After early loads, each of which has a place of its own to go to.
      {"loads_in_place", "Uses loaded rows where they lie in memory.", use_loads_in_place},
      // All instructions are there now, so those that came without a device can take one.
      {"assign_devices", "Gives every instruction and every storage a device.", assign_devices},
      {"insert_transfers", "Sends values from device to device.", insert_transfers},
      {"receives_in_place", "Reads what other devices keep where it lies.", use_receives_in_place},
      // After copies have become nothing, or transfers.
      {"unused_kernels", "Forgets kernels that nothing runs any more.", remove_unused_kernels},
      {"lifetimes", "Finds from where to where storages are alive.", find_lifetimes},
      {"plan_frames", "Gives storages their offsets in frames.", plan_frames},
      // Storages that follow each other in one place make devices wait: their places must be known.
      {"separate_devices", "Cuts functions into a stream for each device.",
       [](StepProgram& program) { separate_devices(program); }},
  };
  return passes;
}

const StepPass& find_step_pass(std::string_view name) {
  return find_named_pass(all_step_passes(), "pass over steps", name);
}

}  // namespace pando
