// Changes of graphs that are made of several others.
#pragma once

#include "pando/ir/graph.hpp"

namespace pando {

/// Every use of `from` (and graph output) becomes a use of `to`, a tensor of the same graph.
void replace_uses(Tensor& from, Tensor& to);

/// Removes the graph input with this index, which has no uses.
void remove_input(Graph& graph, int index);
/// Takes the graph output with this index off the list. The tensor stays.
void remove_output(Graph& graph, int index);

}  // namespace pando
