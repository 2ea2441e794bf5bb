// Run-time checks of the scales of float8 ops.
#pragma once

#include "pando/ir/graph.hpp"

namespace pando {

/// Puts a CheckRange in front of every log2 scale: a run whose scale is outside [-32, 32) stops
/// with ApplicationFault. Constants inside the range need none.
void check_log2_scales(Graph& graph);

}  // namespace pando
