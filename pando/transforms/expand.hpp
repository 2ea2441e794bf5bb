// Rewrites composite ops into simpler ones.
#pragma once

#include "pando/ir/graph.hpp"

namespace pando {

/// Replaces every op that has an `expand` rule by what the rule builds, until none is left. Values
/// and side effects stay the same. Throws Error for an op whose `check_execution` does.
void expand(Graph& graph);

}  // namespace pando
