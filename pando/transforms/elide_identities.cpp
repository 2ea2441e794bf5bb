#include "pando/transforms/elide_identities.hpp"

#include "pando/ir/graph_surgery.hpp"

namespace pando {
namespace {

/// Whether `tensor` is all of a storage that its producer made.
bool has_own_storage(const Tensor& tensor) {
  const Op* producer = tensor.producer();
  if (producer == nullptr || producer->def().view != nullptr) return false;
  const OpDef& def = producer->def();
  return !def.output_alias || def.output_alias(*producer, tensor.producer_index()) < 0;
}

bool is_elidable(const Op& op) {
  if (!op.def().is_elidable) return false;
  const Tensor& from = *op.input(0);
  return has_own_storage(from) && from.uses().size() == 1 && !from.is_graph_output() &&
         from.info == op.output(0)->info &&
         from.producer()->context.execution == op.context.execution &&
         from.producer()->context.device == op.context.device;
}

}  // namespace

void elide_identities(Graph& graph) {
  if (!graph.op_list().any_kind([](const OpDef& def) { return def.is_elidable; })) return;
  for (Op *op = graph.op_list().first(), *next = nullptr; op != nullptr; op = next) {
    next = op->next();
    if (!is_elidable(*op)) continue;
    replace_uses(*op->output(0), *op->input(0));
    graph.erase_ops({op});
  }
}

}  // namespace pando
