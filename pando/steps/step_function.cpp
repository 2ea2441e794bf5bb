#include "pando/steps/step_function.hpp"

#include <algorithm>

namespace pando {

bool StepInstruction::touches(std::int32_t storage) const {
  return std::find(callee_frames.begin(), callee_frames.end(), storage) != callee_frames.end() ||
         std::any_of(operands.begin(), operands.end(),
                     [&](const StepOperand& operand) { return operand.storage == storage; });
}

std::string_view step_word(Instruction::Kind kind) {
  static constexpr std::string_view kWords[] = {
      "kernel",           "call",         "loop",    "if",       "host_load",  "host_store",
      "remote_load",      "remote_store", "copy",    "print",    "collective", "remote_load_start",
      "remote_load_wait", "send",         "receive", "host_call"};
  static_assert(std::size(kWords) == static_cast<std::size_t>(kLastInstructionKind) + 1);
  return kWords[static_cast<std::size_t>(kind)];
}

}  // namespace pando
