// Matrix products whose result is wanted transposed.
#pragma once

#include "pando/ir/graph.hpp"

namespace pando {

/// Puts `b^T a^T` in place of `(a b)^T` where nothing else reads the product `a b`, and the same
/// for GroupedOuter: gradients of weights that a program multiplies transposed are then made row by
/// row as their updates read them. Transposes that other products, or more transposes, read stay:
/// to those they cost nothing.
void turn_transposed_products(Graph& graph);

}  // namespace pando
