#include "pando/transforms/transposed_products.hpp"

#include <algorithm>
#include <utility>

#include "pando/base/band_attributes.hpp"
#include "pando/ir/graph_surgery.hpp"
#include "pando/ops/rules.hpp"
#include "pando/transforms/readers.hpp"

namespace pando {
namespace {

/// Whether the output of `op` is its input with the last two axes swapped.
bool swaps_last_two(const Op& op) {
  if (op.def().view == nullptr || op.input(0)->shape().size() < 2) return false;
  View swapped = View::contiguous(op.input(0)->shape());
  const std::size_t last = swapped.shape.size() - 1;
  std::swap(swapped.shape[last], swapped.shape[last - 1]);
  std::swap(swapped.strides[last], swapped.strides[last - 1]);
  return op.def().view(op, 0, View::contiguous(op.input(0)->shape())) == swapped;
}

bool takes_any_strides(const Op& op) {
  return op.kind() == OpKind::MatMul || op.kind() == OpKind::GroupedMatMul ||
         op.kind() == OpKind::GroupedOuter || swaps_last_two(op);
}

/// Whether a product is one of two matrices, or batches of them, with a transpose of the same kind.
bool has_transpose(const Op& product) {
  if (product.kind() == OpKind::GroupedOuter) return true;
  const std::size_t rank = product.output(0)->shape().size();
  return product.kind() == OpKind::MatMul && product.num_inputs() == 2 &&
         product.input(0)->shape().size() == rank && product.input(1)->shape().size() == rank &&
         !has_band(product.attributes);
}

/// The product that `op` transposes; nullptr if there is none.
Op* transposed_product(const Op& op) {
  if (op.def().view == nullptr) return nullptr;
  const Tensor& source = *op.input(0);
  Op* product = source.producer();
  if (product == nullptr || !has_transpose(*product) || only_reader(source) != &op ||
      !swaps_last_two(op)) {
    return nullptr;
  }
  const auto& uses = op.output(0)->uses();
  const bool is_read_in_rows = std::none_of(
      uses.begin(), uses.end(), [](const Use& use) { return takes_any_strides(*use.op); });
  return is_read_in_rows ? product : nullptr;
}

/// The transpose of an operand: what it is a transpose of, if it is one.
Tensor* turned(OpBuilder& builder, Tensor* operand) {
  const Op* producer = operand->producer();
  const bool is_transpose = producer != nullptr && swaps_last_two(*producer);
  return is_transpose ? producer->input(0) : transposed(builder, operand);
}

/// The transpose of a product as a product.
Tensor* made_transposed(OpBuilder& builder, const Op& product) {
  if (product.kind() == OpKind::GroupedOuter) {
    return builder.make("GroupedOuter", {product.input(1), product.input(0), product.input(2)});
  }
  Tensor* lhs = turned(builder, product.input(1));
  Tensor* rhs = turned(builder, product.input(0));
  return builder.make("MatMul", {lhs, rhs}, product.attributes);
}

void erase_unused_transpose(Graph& graph, const Tensor& operand) {
  Op* producer = operand.producer();
  if (producer == nullptr || !swaps_last_two(*producer)) return;
  if (operand.uses().empty() && !operand.is_graph_output()) graph.erase_ops({producer});
}

}  // namespace

void turn_transposed_products(Graph& graph) {
  if (!graph.op_list().any_kind([](const OpDef& def) { return def.view != nullptr; })) return;
  for (Op *op = graph.op_list().first(), *next = nullptr; op != nullptr; op = next) {
    next = op->next();
    Op* product = transposed_product(*op);
    if (product == nullptr) continue;
    graph.set_insertion_point(product);
    OpBuilder builder(graph, product->context);
    Tensor* result = made_transposed(builder, *product);
    graph.set_insertion_point(nullptr);
    replace_uses(*op->output(0), *result);
    const Tensor& left = *product->input(0);
    const Tensor& right = *product->input(1);
    graph.erase_ops({op, product});
    erase_unused_transpose(graph, left);
    if (&left != &right) erase_unused_transpose(graph, right);
  }
}

}  // namespace pando
