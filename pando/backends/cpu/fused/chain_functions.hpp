// Functions that the micro-ops compute with tile ops, as steps of machine code.
#pragma once

#include <vector>

#include "pando/backends/cpu/fused/chain_steps.hpp"
#include "pando/backends/cpu/fused/nodes.hpp"

namespace pando::cpu {

/// Whether the node is a sigmoid of float32 lanes.
bool is_sigmoid(const Node& node);

/// Appends the steps of the sigmoid of `operand`; returns the number of the last one, whose value
/// it is. Rounds as the tile op does: results are equal bit by bit.
int append_sigmoid(int operand, std::vector<ChainStep>& steps);

}  // namespace pando::cpu
