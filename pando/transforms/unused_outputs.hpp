// Calls compute only what their callers use.
#pragma once

#include "pando/ir/graph.hpp"

namespace pando {

/// Takes outputs that nobody uses away from calls and from the called graphs, with all that only
/// they need, callers first. Where the calls of a graph use different outputs, those that use the
/// same ones as most (counted by how often they run) call the graph and the others a copy of it,
/// which computes all that any of these uses. Calls of less than an eighth of all runs are not
/// worth a copy. Graphs that loops run or conditionals choose keep all outputs.
/// Graphs that the main graph cannot reach are removed.
///
/// Why: a gradient graph that recomputes calls the forward graph again for its activations and has
/// no use for its result, and the forward pass then has no use for the activations.
void drop_unused_outputs(Ir& ir);

}  // namespace pando
