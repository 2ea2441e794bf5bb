#include "pando/transforms/loss_from_scores.hpp"

#include "pando/transforms/purity.hpp"
#include "pando/transforms/readers.hpp"

namespace pando {
namespace {

bool is_plain_softmax(const Op& op) {
  const auto rank = static_cast<std::int64_t>(op.input(0)->shape().size());
  return op.kind() == OpKind::Softmax && op.input(0)->dtype() == DType::Float32 &&
         op.attributes.integer("axis") == rank - 1 && op.attributes.number_or("scale", 1) == 1 &&
         !op.attributes.has("band");
}

}  // namespace

void take_losses_from_scores(Graph& graph) {
  if (!graph.op_list().has(OpKind::NlllWithSoftmaxGradDirect)) return;
  const Purity purity(graph);
  for (Op* op = graph.op_list().first(); op != nullptr; op = op->next()) {
    if (op->kind() != OpKind::NlllWithSoftmaxGradDirect) continue;
    Op* softmax = op->input(0)->producer();
    const bool is_joined = softmax != nullptr && is_plain_softmax(*softmax) &&
                           only_reader(*op->input(0)) == op && purity.is_pure(*softmax);
    if (!is_joined) continue;
    op->set_input(0, softmax->input(0));
    op->attributes.set("from_scores", true);
    graph.erase_ops({softmax});
  }
}

}  // namespace pando
