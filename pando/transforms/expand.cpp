#include "pando/transforms/expand.hpp"

#include <algorithm>
#include <vector>

#include "pando/base/error.hpp"
#include "pando/ir/graph_surgery.hpp"
#include "pando/ir/numbered_map.hpp"

namespace pando {

void expand(Graph& graph) {
  OpSet expanded;
  std::vector<Op*> last_first;
  for (Op* next = graph.op_list().first(); next != nullptr;) {
    Op& op = *next;
    next = op.next();
    if (expanded.contains(&op)) continue;
    if (op.def().check_execution) op.def().check_execution(op);
    if (!op.def().expand) continue;
    const Op* before = op.previous();
    graph.set_insertion_point(&op);
    OpBuilder builder(graph, op.context);
    const std::vector<Tensor*> replacements = op.def().expand(builder, op);
    graph.set_insertion_point(nullptr);
    // A rule inserts its ops before the expanded one: those come next.
    next = before == nullptr ? graph.op_list().first() : before->next();
    if (replacements.empty() && op.num_outputs() > 0) {
      internal_check(next == &op, "an op in its simplest form expands to nothing");
      next = op.next();
      continue;
    }
    internal_check(replacements.size() == op.outputs().size(),
                   "an expansion must replace every output");
    for (int k = 0; k < op.num_outputs(); ++k) {
      Tensor* replacement = replacements[static_cast<std::size_t>(k)];
      if (replacement != nullptr) replace_uses(*op.output(k), *replacement);
    }
    expanded.insert(&op);
    last_first.push_back(&op);
  }
  std::reverse(last_first.begin(), last_first.end());
  graph.erase_ops(last_first);
}

}  // namespace pando
