// Computes at compile time what depends on constants alone.
#pragma once

#include "pando/ir/graph.hpp"

namespace pando {

/// Replaces the results of pure pointwise ops and views whose inputs are all constants of at most
/// 4096 elements by constants. Left alone: results with more elements than any input
/// (broadcasts cost nothing at run time, their results would cost memory), graph outputs, results
/// that are written in place, and what has no defined value (see scalar_evaluator.hpp). The folded
/// ops have no uses afterwards (dead code removes them).
void fold_constants(Graph& graph);

}  // namespace pando
