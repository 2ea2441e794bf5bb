// What instructions do beside reading and writing their operands.
#pragma once

#include <set>
#include <vector>

#include "pando/compile/device_streams.hpp"
#include "pando/steps/step_function.hpp"

namespace pando {

/// The streams, remote buffers, ... that instructions use in a fixed order: of a call, loop or
/// branch those that the callee uses. Looks at each function once, when something first calls it.
class StepEffects {
 public:
  explicit StepEffects(const StepProgram& program) : program_(program) {}

  std::set<AccessSpace> of(const StepInstruction& instruction);
  bool has(const StepInstruction& instruction, const AccessSpace& effect);
  /// Whether `other` may have `effect` (a RemoteStore; a RemoteLoad stands for any transfer) on the
  /// row of `load`.
  bool may_transfer_row(const StepInstruction& other, const StepInstruction& load,
                        Instruction::Kind effect);

 private:
  const std::set<AccessSpace>& of_function(std::int32_t function);

  const StepProgram& program_;
  std::vector<std::set<AccessSpace>> functions_;  // the first ones of the program
};

}  // namespace pando
