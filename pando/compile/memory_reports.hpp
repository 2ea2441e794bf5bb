// What a planned program needs of memory, and what is alive when it needs most.
#pragma once

#include "pando/steps/step_function.hpp"

namespace pando {

/// The report on the whole program: that of its main function, with persistent memory, and on each
/// device. The steps must be planned.
MemoryReport measure_memory(const StepProgram& program);

}  // namespace pando
