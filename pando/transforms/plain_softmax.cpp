#include "pando/transforms/plain_softmax.hpp"

#include "pando/ir/graph_surgery.hpp"

namespace pando {

void use_plain_softmax(Graph& graph) {
  const std::vector<Op*> ops = graph.ops();
  for (Op* op : ops) {
    if (op->kind() != OpKind::Softmax || op->attributes.has("scale") ||
        op->attributes.has("band")) {
      continue;
    }
    graph.set_insertion_point(op);
    OpBuilder builder(graph, op->context);
    Tensor* x = op->input(0);
    const DType dtype = x->dtype();
    const auto rank = static_cast<std::int64_t>(x->shape().size());
    Ints axes;
    for (std::int64_t axis = normalise_axis(op->attributes.integer("axis"), rank, "Softmax");
         axis < rank; ++axis) {
      axes.push_back(axis);
    }
    if (is_half_precision(dtype)) x = builder.cast(x, DType::Float32);
    Tensor* powers = builder.make("Exp", {x});
    Tensor* sum = builder.make("ReduceSum", {powers}, {{"axes", axes}, {"keepdims", true}});
    Tensor* result = builder.cast(builder.make("Div", {powers, sum}), dtype);
    graph.set_insertion_point(nullptr);
    replace_uses(*op->output(0), *result);
    graph.erase_ops({op});
  }
}

}  // namespace pando
