// Attention that is written with products and a softmax becomes one op.
#pragma once

#include "pando/ir/graph.hpp"

namespace pando {

/// softmax(scale * q k^T + mask) v, with a scale, a mask and dropout or without them, becomes
/// ScaledDotProductAttention where only these ops read what is between them. A mask may be added,
/// hide by Where with -infinity, or be a constant band of diagonals, which becomes a window.
///
/// Results differ by rounding, where scores were rounded to 16 bits also by that; a row of which
/// such a Where hides everything was NaN and becomes 0. To be run before autodiff, since gradients
/// read the weights.
void find_attention(Graph& graph);

}  // namespace pando
