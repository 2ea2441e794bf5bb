// Merges equal computations.
#pragma once

#include <cstddef>

#include "pando/ir/graph.hpp"

namespace pando {

/// Replaces an op by an earlier one of the same kind, attributes, inputs, execution context and
/// device, and equal constants of one graph by one of them. Left alone: ops with effects or called
/// graphs, ops that write or alias an input, ops that touch a storage that is ever written, and ops
/// that make graph outputs. The results of the merged ops have no uses afterwards (dead code
/// removes them).
///
/// `max_bytes`: results of more bytes are only merged when they are views. Sharing a large result
/// keeps it alive for longer and would undo a recomputation that the user asked for.
void eliminate_common_subexpressions(Graph& graph, std::size_t max_bytes);
/// The same for results of any size.
void eliminate_common_subexpressions(Graph& graph);

}  // namespace pando
