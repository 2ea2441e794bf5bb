// Products computed inside the pointwise steps that read them.
#pragma once

#include <vector>

#include "pando/compile/fusion_groups.hpp"

namespace pando {

/// Moves a product of float32 matrices into the pointwise step that alone reads it, where few terms
/// are summed (the gradient of a weight over a small batch): the result then never lies in memory.
/// Only where the operands together are no larger than the result, as they live on until the step.
void absorb_products(std::vector<ExecutionStep>& steps, const Graph& graph,
                     const Placements& placements);

}  // namespace pando
