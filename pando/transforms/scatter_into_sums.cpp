#include "pando/transforms/scatter_into_sums.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "pando/ir/graph_surgery.hpp"
#include "pando/ir/op_def.hpp"
#include "pando/transforms/readers.hpp"

namespace pando {
namespace {

/// Whether `tensor` has rows in a matrix of zeros, for `sum` alone.
bool is_scattered(const Tensor& tensor, const Op& sum) {
  const Op* op = tensor.producer();
  return op != nullptr && op->kind() == OpKind::GatherGrad && only_reader(tensor) == &sum &&
         tensor.shape().size() == 2 && op->attributes.integer("axis") == 0 &&
         op->attributes.integer_or("group_size", 1) == 1;
}

Tensor* add_rows(Graph& graph, const Op& gather_grad, Tensor* to) {
  OpBuilder builder(graph, gather_grad.context);
  const std::int64_t rows = num_elements(gather_grad.input(1)->shape());
  const Shape shape = {rows, to->shape()[1]};
  Tensor* indices = builder.broadcast_to(builder.reshape(gather_grad.input(1), {rows, 1}), shape);
  const Attributes attributes = {{"reduction", std::string("sum")}, {"axis", std::int64_t{0}}};
  return builder.make("ScatterReduce", {builder.reshape(gather_grad.input(0), shape), indices, to},
                      attributes);
}

/// What `sum` is without the rows that are scattered into it; nullptr where that is read elsewhere
/// too or is nothing.
Tensor* sum_of_others(Graph& graph, const Op& sum, const std::vector<Tensor*>& others) {
  if (others.size() == 1) return only_reader(*others.front()) == &sum ? others.front() : nullptr;
  return others.empty() ? nullptr : OpBuilder(graph, sum.context).make("Sum", others);
}

}  // namespace

void scatter_into_sums(Graph& graph) {
  if (!graph.op_list().has(OpKind::GatherGrad)) return;
  for (Op *op = graph.op_list().first(), *next = nullptr; op != nullptr; op = next) {
    next = op->next();
    if (op->kind() != OpKind::Sum) continue;
    std::vector<Tensor*> others = op->inputs();
    const auto scattered = std::stable_partition(
        others.begin(), others.end(), [&](const Tensor* t) { return !is_scattered(*t, *op); });
    std::vector<Op*> gone = {op};
    std::transform(scattered, others.end(), std::back_inserter(gone),
                   [](const Tensor* t) { return t->producer(); });
    if (gone.size() == 1) continue;
    others.erase(scattered, others.end());
    graph.set_insertion_point(op);
    if (Tensor* result = sum_of_others(graph, *op, others)) {
      for (std::size_t i = 1; i < gone.size(); ++i) result = add_rows(graph, *gone[i], result);
      replace_uses(*op->output(0), *result);
      graph.erase_ops(gone);
    }
    graph.set_insertion_point(nullptr);
  }
}

}  // namespace pando
