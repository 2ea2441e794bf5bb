// Whether a pass has something to do.
#pragma once

#include <algorithm>

#include "pando/ir/graph.hpp"

namespace pando {

/// Whether `is_wanted` holds for an op of the graph. A pass asks it before it looks at all ops and
/// tensors for what it needs to know.
template <class Predicate>
bool any_op(const Graph& graph, Predicate is_wanted) {
  const std::vector<Op*>& ops = graph.ops();
  return std::any_of(ops.begin(), ops.end(), [&](const Op* op) { return is_wanted(*op); });
}

}  // namespace pando
