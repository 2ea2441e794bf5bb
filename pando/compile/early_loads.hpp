// Remote loads that go on while the program does.
#pragma once

#include "pando/steps/step_function.hpp"

namespace pando {

/// Splits remote loads into a `remote_load_start`, before all that they need not wait for, and a
/// `remote_load_wait` before the first use. At most `prefetch_bytes` of a function are on the way
/// early; with 0 nothing changes.
void start_loads_early(StepProgram& program);

}  // namespace pando
