// The rules of steps.
#pragma once

#include <string>

#include "pando/steps/step_function.hpp"

namespace pando {

/// Throws Error naming function, instruction and rule unless the program keeps these:
///
/// - Every index names something, and functions call only functions before them.
/// - Operands are as many and as large as the kernel, the callee, the stream, ... wants, and lie
///   within their storages; global storages lie within persistent memory.
/// - What an instruction writes is `out`, in a writable storage: so are arguments that a callee
///   writes.
/// - Local storages and outputs are written before they are read, and every output is written.
/// - A remote load that starts early is waited for once, and nothing touches the storage meanwhile.
/// - What is sent on one device is received on the other one by an instruction that names the same
///   value, which nothing writes meanwhile. Both use memory of their own device, but for that
///   value.
/// - A row belongs to one load, which fills one whole local storage, and is written only if that
///   load says so.
///
/// Once frames are planned also:
/// - Storages are alive wherever instructions touch them, lie within the frame, and do not overlap
///   while both are alive on one device. Frames of callees have the callees' sizes.
/// - Every instruction has a device of its function, and runs in the stream of that one.
/// - Where devices do not share memory, operands lie on the instruction's device, those of calls
///   where the callee wants them, and each device of a branch has a condition.
void check_steps(const StepProgram& program);

/// The same for what the compiler has made: throws InternalError. `stage` says where it is.
void verify(const StepProgram& program, const std::string& stage = {});

}  // namespace pando
