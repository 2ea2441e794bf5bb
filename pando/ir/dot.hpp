// Graphviz text of graphs.
#pragma once

#include <cstddef>
#include <limits>
#include <string>

#include "pando/ir/graph.hpp"

namespace pando {

struct DotOptions {
  /// Ops at positions outside [first_op, final_op) of their graph are left out.
  std::size_t first_op = 0;
  std::size_t final_op = std::numeric_limits<std::size_t>::max();
};

/// One graph: ops are boxes, tensors without producer ellipses, edges carry tensors. Starts with
/// `digraph net {` and ends with `}` and a newline.
std::string dot_text(const Graph& graph, const DotOptions& options = {});

/// Every graph of `ir` as a cluster of one drawing; dashed edges lead from calls to callees.
std::string dot_text(const Ir& ir, const DotOptions& options = {});

}  // namespace pando
