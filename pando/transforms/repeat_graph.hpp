// Turns the whole content of a graph into a loop.
#pragma once

#include <cstdint>

#include "pando/ir/graph.hpp"

namespace pando {

/// Moves all ops of `graph` (which may be the main graph) into a new graph
/// `repeat_graph_subgraph(<n>)`, which a Loop in their place runs `count` times. Variables and
/// graph inputs stay and are passed by reference where they are written, so that changes last from
/// one iteration to the next. Graph outputs are those of the last iteration. Ops that move weights
/// from or to the host stay. Returns the new graph.
///
/// Throws ValueError when `count` is below 1, Error when an op that stays needs a moved one.
Graph& repeat_graph(Graph& graph, std::int64_t count, const OpContext& context);

}  // namespace pando
