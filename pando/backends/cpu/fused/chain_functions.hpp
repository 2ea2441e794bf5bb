// Functions that the micro-ops compute with tile ops, as steps of machine code.
#pragma once

#include <vector>

#include "pando/backends/cpu/fused/chain_steps.hpp"
#include "pando/backends/cpu/fused/nodes.hpp"

namespace pando::cpu {

/// Sigmoid of float32 lanes.
bool has_function_steps(const Node& node);

/// Appends the steps of the function of a node that has them; returns the number of the last one,
/// whose value is the function's. Rounds as the tile op does: results are equal bit by bit.
int append_function_steps(int operand, std::vector<ChainStep>& steps);

}  // namespace pando::cpu
