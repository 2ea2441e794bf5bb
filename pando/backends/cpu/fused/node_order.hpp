// In which order the micro-ops of a fused program run.
#pragma once

#include <vector>

#include "pando/backends/cpu/fused/nodes.hpp"

namespace pando::cpu {

// Orders let chains pass their blocks on, and few blocks wait.

/// Orders what every block needs, with the stores.
std::vector<int> body_order(const NodeGraph& graph);
/// Orders the uniform nodes that `kept` marks, and what they need.
std::vector<int> prologue_order(const NodeGraph& graph, const std::vector<bool>& kept);

}  // namespace pando::cpu
