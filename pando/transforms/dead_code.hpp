// Removes what no result depends on.
#pragma once

#include "pando/ir/graph.hpp"

namespace pando {

/// Erases ops without an observable effect: no side effect, no output that a kept op or the graph's
/// outputs use, no write to an input, a variable, or a storage that a later kept op reads. Graph
/// inputs and outputs stay.
void eliminate_dead_code(Graph& graph);
/// The same for all graphs: each is asked for its effects once.
void eliminate_dead_code(Ir& ir);

/// Erases graphs that cannot be reached from the main graph.
void erase_unreachable_graphs(Ir& ir);

}  // namespace pando
