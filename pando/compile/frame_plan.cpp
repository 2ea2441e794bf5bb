#include "pando/compile/frame_plan.hpp"

#include "pando/base/error.hpp"
#include "pando/compile/memory_plan.hpp"

namespace pando {
namespace {

/// The function of which `call` needs the larger frame on the device.
std::int32_t largest_callee(const StepProgram& program, const StepInstruction& call,
                            std::size_t device) {
  const auto bytes = [&](std::int32_t function) {
    return program.functions[static_cast<std::size_t>(function)].frame_bytes[device];
  };
  if (call.kind != Instruction::Kind::If) return call.target;
  return bytes(call.target) >= bytes(call.other_target) ? call.target : call.other_target;
}

/// Makes the storage `frame` the frame of `callee` on the device.
void size_frame(StepProgram& program, Storage& frame, std::int32_t callee, std::size_t device) {
  const StepFunction& called = program.functions[static_cast<std::size_t>(callee)];
  frame.device = static_cast<std::int32_t>(device);
  frame.callee = callee;
  frame.bytes = called.frame_bytes[device];
  frame.name = program.texts.add_joined("frame of ", called.name);
}

/// The one frame of each call becomes one for each device that has temporaries in the callee.
void size_callee_frames(StepProgram& program, StepFunction& function) {
  for (StepInstruction& in : function.instructions) {
    if (in.callee_frames.empty()) continue;
    const std::int32_t first = in.callee_frames.front();
    in.callee_frames.clear();
    for (std::size_t device = 0; device < program.device_numbers.size(); ++device) {
      const std::int32_t callee = largest_callee(program, in, device);
      if (program.functions[static_cast<std::size_t>(callee)].frame_bytes[device] == 0) continue;
      std::int32_t frame = first;
      if (!in.callee_frames.empty()) {
        frame = static_cast<std::int32_t>(function.storages.size());
        function.storages.push_back(function.storage_of({first}));
      }
      size_frame(program, function.storage_of({frame}), callee, device);
      in.callee_frames.push_back(frame);
    }
    if (!in.callee_frames.empty()) continue;
    Storage& unused = function.storage_of({first});
    size_frame(program, unused, in.target, static_cast<std::size_t>(in.device));
    unused.first = unused.last = -1;
  }
}

void plan_frame(StepFunction& function, std::size_t num_devices) {
  const int num_instructions = static_cast<int>(function.instructions.size());
  function.frame_bytes.assign(num_devices, 0);
  for (std::size_t device = 0; device < num_devices; ++device) {
    std::vector<Lifetime> lifetimes;
    std::vector<Storage*> planned;
    for (Storage& storage : function.storages) {
      const bool is_used = storage.kind == Storage::Kind::Local && storage.first >= 0;
      if (!is_used || static_cast<std::size_t>(storage.device) != device) continue;
      lifetimes.push_back({storage.bytes, storage.first, storage.last});
      planned.push_back(&storage);
    }
    if (planned.empty()) continue;
    const MemoryPlan plan = plan_memory(lifetimes, num_instructions);
    for (std::size_t i = 0; i < planned.size(); ++i) planned[i]->offset = plan.offsets[i];
    function.frame_bytes[device] = plan.total_bytes;
  }
}

}  // namespace

void plan_frames(StepProgram& program) {
  for (StepFunction& function : program.functions) {
    size_callee_frames(program, function);
    plan_frame(function, program.device_numbers.size());
  }
}

}  // namespace pando
