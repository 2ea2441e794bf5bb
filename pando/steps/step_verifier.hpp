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
/// - A row belongs to one load, which fills one whole local storage, and is written only if that
///   load says so.
///
/// Once frames are planned also:
/// - Storages are alive wherever instructions touch them, lie within the frame, and do not overlap
///   while both are alive. Frames of callees have the callees' sizes.
/// - Every instruction has a device of its function, and runs in the stream of that one.
void check_steps(const StepProgram& program);

/// The same for what the compiler has made: throws InternalError. `stage` says where it is.
void verify(const StepProgram& program, const std::string& stage = {});

}  // namespace pando
