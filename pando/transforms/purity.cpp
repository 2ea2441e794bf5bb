#include "pando/transforms/purity.hpp"

namespace pando {

Purity::Purity(const Graph& graph) : aliases_(graph) {
  for (const Op* op : graph.ops()) {
    for (int index : op->modified_inputs()) {
      if (op->input(index) != nullptr) written_.insert(aliases_.root(op->input(index)));
    }
  }
}

bool Purity::is_pure(const Op& op) const {
  if (op.def().has_side_effects || !op.called_graphs.empty() || op.modifies()) return false;
  for (const Tensor* input : op.inputs()) {
    if (input != nullptr && is_written(*input)) return false;
  }
  for (int i = 0; i < op.num_outputs(); ++i) {
    if (op.def().output_alias && op.def().output_alias(op, i) >= 0) return false;
    if (is_written(*op.output(i))) return false;
  }
  return true;
}

}  // namespace pando
