// Makes concat_ a view of several tensors.
#pragma once

#include "pando/ir/graph.hpp"

namespace pando {

/// The result of ConcatInplace shares its elements with its inputs, but has a storage of its own.
/// After every op that writes the result (or an alias of it) this copies the parts back to the
/// inputs, and after every op that writes an input, that part of the result. Concatenations without
/// such writes stay as they are.
void keep_concat_views(Graph& graph);

}  // namespace pando
