#include "pando/compile/product_inputs.hpp"

#include <algorithm>

namespace pando {
namespace {

/// Beyond it a product of its own, which keeps blocks of both operands in cache, is faster.
constexpr std::int64_t kMaxDepth = 16;

class ProductAbsorber {
 public:
  ProductAbsorber(std::vector<ExecutionStep>& steps, const Graph& graph,
                  const Placements& placements)
      : steps_(steps), graph_(graph), placements_(placements) {}

  void run() {
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      const ExecutionStep& step = steps_[i];
      if (step.pointwise || !is_shallow_product(*step.ops.front())) continue;
      Op* product = step.ops.front();
      const std::size_t reader = only_reader(*product, i);
      if (reader == steps_.size() || !can_wait(*product, i, reader)) continue;
      steps_[reader].products.push_back(product);
      steps_[i].ops.clear();
    }
    std::erase_if(steps_, [](const ExecutionStep& step) { return step.ops.empty(); });
  }

 private:
  bool is_shallow_product(const Op& op) const {
    if (op.kind() != OpKind::MatMul || op.num_inputs() != 2) return false;
    const Tensor &left = *op.input(0), &right = *op.input(1), &out = *op.output(0);
    for (const Tensor* tensor : {&left, &right, &out}) {
      if (tensor->dtype() != DType::Float32 || tensor->shape().size() != 2) return false;
    }
    const std::int64_t depth = left.shape()[1];
    if (depth < 1 || depth > kMaxDepth) return false;
    const std::int64_t elements = out.info.num_elements();
    if (elements < 2 || left.info.num_elements() + right.info.num_elements() > elements) {
      return false;
    }
    const View& rows = placements_.of(&right).view;
    return rows.strides[1] == 1 && is_whole(&out, placements_.of(&out).root);
  }

  /// The tensor is its storage, in C order.
  bool is_whole(const Tensor* tensor, const Tensor* root) const {
    return tensor == root && placements_.of(tensor).view == View::contiguous(tensor->shape());
  }

  /// The pointwise step that reads the product's result as it is and nobody else, or none.
  std::size_t only_reader(const Op& product, std::size_t at) const {
    const Tensor* out = product.output(0);
    const auto& outputs = graph_.outputs();
    std::size_t reader = steps_.size();
    for (const Tensor* output : outputs) {
      if (placements_.of(output).root == out) return steps_.size();
    }
    for (std::size_t i = at + 1; i < steps_.size(); ++i) {
      for (const Op* op : steps_[i].ops) {
        for (const Tensor* input : op->inputs()) {
          if (input == nullptr || placements_.of(input).root != out) continue;
          const bool another = reader != steps_.size() && reader != i;
          if (another || !reads_plainly(steps_[i], *op, input, product)) return steps_.size();
          reader = i;
        }
      }
    }
    return reader;
  }

  bool reads_plainly(const ExecutionStep& step, const Op& op, const Tensor* input,
                     const Op& product) const {
    const Tensor* out = product.output(0);
    if (!step.pointwise || op.output(0)->shape() != out->shape()) return false;
    const OpContext &own = product.context, &other = op.context;
    if (own.execution != other.execution || own.device != other.device) return false;
    if (placements_.of(input).view != View::contiguous(out->shape())) return false;
    return !writes(op, out);
  }

  bool writes(const Op& op, const Tensor* root) const {
    for (int index : op.modified_inputs()) {
      if (op.input(index) != nullptr && placements_.of(op.input(index)).root == root) return true;
    }
    return false;
  }

  bool touches(const Op& op, const Tensor* root) const {
    const auto is_on_root = [&](const Tensor* tensor) {
      return tensor != nullptr && placements_.of(tensor).root == root;
    };
    return std::any_of(op.inputs().begin(), op.inputs().end(), is_on_root) ||
           std::any_of(op.outputs().begin(), op.outputs().end(), is_on_root);
  }

  /// Nothing writes the operands between the product's place and the reader, and the reader does
  /// not touch them otherwise: what it writes may lie where they are.
  bool can_wait(const Op& product, std::size_t at, std::size_t reader) const {
    for (const Tensor* operand : product.inputs()) {
      const Tensor* root = placements_.of(operand).root;
      for (std::size_t i = at + 1; i < reader; ++i) {
        for (const Op* op : steps_[i].ops) {
          if (writes(*op, root)) return false;
        }
      }
      for (const Op* op : steps_[reader].ops) {
        if (touches(*op, root)) return false;
      }
    }
    return true;
  }

  std::vector<ExecutionStep>& steps_;
  const Graph& graph_;
  const Placements& placements_;
};

}  // namespace

void absorb_products(std::vector<ExecutionStep>& steps, const Graph& graph,
                     const Placements& placements) {
  ProductAbsorber(steps, graph, placements).run();
}

}  // namespace pando
