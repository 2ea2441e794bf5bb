// Which devices instructions and their operands belong to.
#pragma once

#include <cstdint>
#include <vector>

#include "pando/steps/step_function.hpp"

namespace pando {

/// Devices that run a part of `instruction`, ascending: of a call those of the callee.
std::vector<std::int32_t> devices_of(const StepProgram& program,
                                     const StepInstruction& instruction);

/// The argument of a callee that an operand of a call is.
struct PassedArgument {
  std::int32_t function = -1;  // -1: the condition of a branch, which is no argument
  std::int32_t slot = 0;
};

/// By operand of a call, loop or branch. Of an output of branches it is that of the first one, of
/// a place of a value that a loop carries the input: the others lie on the same device.
std::vector<PassedArgument> passed_arguments(const StepProgram& program,
                                             const StepInstruction& call);

/// Whether each device has such a storage of its own: the iterator and the condition that a loop
/// gives to a body on several devices.
bool is_on_every_device(const StepFunction& function, std::int32_t storage);

/// The device of the function that has an argument, which has a storage, in its memory; if none
/// has, its first one.
std::int32_t argument_device(const StepFunction& function, std::int32_t slot);

}  // namespace pando
