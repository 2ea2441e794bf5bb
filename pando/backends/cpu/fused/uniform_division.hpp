// Quotients by a divisor that is the same for all elements, made without the divider of the
// processor (docs/decisions/0012-bias-correction.md).
#pragma once

#include "pando/backends/cpu/fused/chain_steps.hpp"
#include "pando/backends/cpu/fused/nodes.hpp"

namespace pando::cpu {

/// Finds the float32 divisions by uniform values, and adds the nodes that append_quotient() needs.
void prepare_uniform_divisions(NodeGraph& graph);

/// nullptr where the node is none of them.
const UniformDivision* uniform_division(const NodeGraph& graph, int node);

/// Blocks of values that depend on the divisor d only.
struct DivisorBlocks {
  int magnitude = kNoOperand;   // |d|
  int reciprocal = kNoOperand;  // -1 / |d|
  int scale = kNoOperand;       // 2^64 with the sign of d
};

/// Appends the steps of `dividend` / d; returns the number of the last one, whose value it is. The
/// bits are those of the division (those of NaN apart) where allows_products() holds for the
/// divisor's magnitude.
int append_quotient(int dividend, const DivisorBlocks& divisor, std::vector<ChainStep>& steps);

/// Whether this thread takes denormals as zeros, and the magnitude is in [2^-60, 2^60].
bool allows_products(float magnitude);

}  // namespace pando::cpu
