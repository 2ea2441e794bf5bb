// In which order the ops of a fused program run.
#pragma once

#include <vector>

#include "pando/backends/cpu/fused/fused_program.hpp"

namespace pando::cpu {

// Orders let chains pass their blocks on, and few blocks wait.

/// Orders what every block needs, with the stores.
std::vector<int> body_order(const FusedProgram& program);
/// Orders the uniform ops that `kept` marks, and what they need.
std::vector<int> prologue_order(const FusedProgram& program, const std::vector<bool>& kept);

}  // namespace pando::cpu
