// Copies of values that nothing else reads.
#pragma once

#include "pando/ir/graph.hpp"

namespace pando {

/// Puts `x` in place of `y = Identity(x)` where some op made the storage of `x` and nothing but the
/// Identity, in the same program and on the same device, ever touches it: what is written to `y`
/// then cannot be seen through `x`.
void elide_identities(Graph& graph);

}  // namespace pando
