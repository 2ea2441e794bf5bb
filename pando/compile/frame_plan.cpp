#include "pando/compile/frame_plan.hpp"

#include "pando/base/error.hpp"
#include "pando/compile/memory_plan.hpp"

namespace pando {
namespace {

/// The function of which `call` needs the larger frame.
std::int32_t largest_callee(const StepProgram& program, const StepInstruction& call) {
  const auto bytes = [&](std::int32_t function) {
    return program.functions[static_cast<std::size_t>(function)].frame_bytes;
  };
  if (call.kind != Instruction::Kind::If) return call.target;
  return bytes(call.target) >= bytes(call.other_target) ? call.target : call.other_target;
}

void size_callee_frames(StepProgram& program, StepFunction& function) {
  for (StepInstruction& in : function.instructions) {
    if (in.callee_frame < 0) continue;
    Storage& frame = function.storages[static_cast<std::size_t>(in.callee_frame)];
    frame.callee = largest_callee(program, in);
    const StepFunction& callee = program.functions[static_cast<std::size_t>(frame.callee)];
    frame.bytes = callee.frame_bytes;
    frame.name = program.texts.add("frame of " + callee.name);
    if (frame.bytes > 0) continue;
    frame.first = frame.last = in.callee_frame = -1;
  }
}

void plan_frame(StepFunction& function) {
  const int num_instructions = static_cast<int>(function.instructions.size());
  function.frame_bytes = 0;
  for (std::int32_t device = 0; device <= function.devices.back(); ++device) {
    std::vector<Lifetime> lifetimes;
    std::vector<Storage*> planned;
    for (Storage& storage : function.storages) {
      const bool is_used = storage.kind == Storage::Kind::Local && storage.first >= 0;
      if (!is_used || storage.device != device) continue;
      lifetimes.push_back({storage.bytes, storage.first, storage.last});
      planned.push_back(&storage);
    }
    const MemoryPlan plan = plan_memory(lifetimes, num_instructions);
    for (std::size_t i = 0; i < planned.size(); ++i) {
      planned[i]->offset = function.frame_bytes + plan.offsets[i];
    }
    function.frame_bytes += plan.total_bytes;
  }
}

}  // namespace

void plan_frames(StepProgram& program) {
  for (StepFunction& function : program.functions) {
    size_callee_frames(program, function);
    plan_frame(function);
  }
}

}  // namespace pando
