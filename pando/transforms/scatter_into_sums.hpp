// Gradients of gathers that are added to other gradients.
#pragma once

#include "pando/ir/graph.hpp"

namespace pando {

/// Puts `ScatterReduce(g, indices, x)` in place of `Sum(x, GatherGrad(g, indices))` where nothing
/// else reads the two inputs and rows of a matrix were gathered: rows are added to x in its place,
/// and there is no matrix of zeros with some rows in it. A table that a model also multiplies by
/// (tied weights) has such gradients.
void scatter_into_sums(Graph& graph);

}  // namespace pando
