// Who reads a tensor.
#pragma once

#include "pando/ir/graph.hpp"

namespace pando {

/// The one op that reads `tensor`, if it belongs to the same program and device as its producer;
/// nullptr for outputs of the graph, and where there is none or several.
inline Op* only_reader(const Tensor& tensor) {
  if (tensor.is_graph_output()) return nullptr;
  if (tensor.producer() == nullptr || tensor.uses().size() != 1) return nullptr;
  Op* reader = tensor.uses().front().op;
  const OpContext& own = tensor.producer()->context;
  const bool same =
      reader->context.execution == own.execution && reader->context.device == own.device;
  return same ? reader : nullptr;
}

}  // namespace pando
