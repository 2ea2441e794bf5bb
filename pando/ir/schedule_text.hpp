// The schedule of a graph as text, as GraphWithNamedArgs.print_schedule returns it.
#pragma once

#include <map>
#include <string>

#include "pando/ir/graph.hpp"

namespace pando {

/// Graph, inputs, outputs and ops in order, without a final newline. Tensors print as `%k`,
/// numbered from 1 by first appearance. Inputs in `named_args` (tensor -> flat key) print as
/// `key=%k`.
std::string schedule_text(const Graph& graph,
                          const std::map<const Tensor*, std::string>& named_args = {});

}  // namespace pando
