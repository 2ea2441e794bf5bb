// Turns scheduled graphs into steps: every storage, copy and kernel that they need, without places.
#pragma once

#include <string>
#include <vector>

#include "pando/ir/graph.hpp"
#include "pando/program/target.hpp"
#include "pando/steps/step_function.hpp"

namespace pando {

/// Lowers `ir` (scheduled, expanded) whole. `prefetch_bytes`: see CompileOptions. `phases`: those
/// of its ops, in order.
StepProgram lower_program(const Ir& ir, Target& target, std::int64_t prefetch_bytes,
                          const std::vector<std::string>& phases);

}  // namespace pando
