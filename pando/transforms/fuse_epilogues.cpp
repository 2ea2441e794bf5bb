#include "pando/transforms/fuse_epilogues.hpp"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "pando/ir/graph_surgery.hpp"
#include "pando/ir/op_def.hpp"
#include "pando/transforms/dependencies.hpp"
#include "pando/transforms/readers.hpp"

namespace pando {
namespace {

/// A product and what follows it.
struct Chain {
  std::vector<Op*> ops;  // the product first
  Tensor* bias = nullptr;
  std::string epilogue;

  Tensor* result() const { return ops.back()->output(0); }
  bool does_something() const { return bias != nullptr || !epilogue.empty(); }
};

class EpilogueFuser {
 public:
  explicit EpilogueFuser(Graph& graph) : graph_(graph), aliases_(graph) {
    for (Op* op : graph.ops()) {
      for (int index : op->modified_inputs()) {
        if (op->input(index) == nullptr) continue;
        writes_[aliases_.root(op->input(index))].push_back(order_.size());
      }
      position_.emplace(op, order_.size());
      order_.push_back(op);
    }
  }

  void run() {
    for (Op* op : order_) {
      if (erased_.contains(op)) continue;
      if (op->kind() != OpKind::MatMul || op->output(0)->dtype() != DType::Float32) continue;
      const Chain chain = follow(*op);
      if (chain.does_something() && operands_keep_their_values(chain)) replace(chain);
    }
  }

 private:
  Chain follow(Op& product) const {
    Chain chain;
    chain.ops = {&product};
    Op* next = only_reader(*chain.result());
    if (next != nullptr && next->kind() == OpKind::Reshape && keeps_columns(*next)) {
      Op* after = only_reader(*next->output(0));
      if (after == nullptr) return chain;
      const std::vector<Op*> with_reshape = {&product, next};
      if (Tensor* bias = bias_of(*after, next->output(0))) {
        chain.ops = with_reshape;
        chain.bias = bias;
        chain.ops.push_back(after);
      }
    } else if (next != nullptr) {
      if (Tensor* bias = bias_of(*next, chain.result())) {
        chain.bias = bias;
        chain.ops.push_back(next);
      }
    }
    next = only_reader(*chain.result());
    if (next != nullptr && !next->def().epilogue.empty()) {
      chain.epilogue = next->def().epilogue;
      chain.ops.push_back(next);
    }
    return chain;
  }

  static bool keeps_columns(const Op& reshape) {
    const Shape& shape = reshape.output(0)->shape();
    return !shape.empty() && shape.back() == reshape.input(0)->shape().back();
  }

  /// The other operand if `op` adds a row vector to every row of `sum`.
  static Tensor* bias_of(const Op& op, const Tensor* sum) {
    if (op.kind() != OpKind::Add || op.output(0)->shape() != sum->shape()) return nullptr;
    Tensor* other = op.input(0) == sum ? op.input(1) : op.input(0);
    const bool is_row = other->shape() == Shape{sum->shape().back()};
    return is_row && other->dtype() == sum->dtype() ? other : nullptr;
  }

  /// The fused op runs where the last op of the chain ran: no op in between may write its operands.
  bool operands_keep_their_values(const Chain& chain) const {
    const std::size_t first = position_.at(chain.ops.front());
    const std::size_t last = position_.at(chain.ops.back());
    const auto keeps_value = [&](const Tensor* operand) {
      const std::vector<std::size_t>& writes = writes_.at(aliases_.root(operand));
      const auto next = std::upper_bound(writes.begin(), writes.end(), first);
      return next == writes.end() || *next >= last;
    };
    const std::vector<Tensor*>& operands = chain.ops.front()->inputs();
    return std::all_of(operands.begin(), operands.end(), keeps_value) &&
           (chain.bias == nullptr || keeps_value(chain.bias));
  }

  void replace(const Chain& chain) {
    Op& product = *chain.ops.front();
    graph_.set_insertion_point(chain.ops.back());
    OpBuilder builder(graph_, product.context);
    std::vector<Tensor*> inputs = {product.input(0), product.input(1)};
    if (chain.bias != nullptr) inputs.push_back(chain.bias);
    Attributes attributes;
    if (!chain.epilogue.empty()) attributes.set("epilogue", chain.epilogue);
    Tensor* fused = builder.make("MatMulEpilogue", inputs, attributes);
    Tensor* result = builder.reshape(fused, chain.result()->shape());
    graph_.set_insertion_point(nullptr);
    replace_uses(*chain.result(), *result);
    aliases_.join(chain.result(), result);
    std::vector<std::size_t> writes = std::move(writes_[chain.result()]);
    writes_[result] = std::move(writes);
    for (auto op = chain.ops.rbegin(); op != chain.ops.rend(); ++op) {
      erased_.insert(*op);
      graph_.erase_ops({*op});
    }
  }

  Graph& graph_;
  AliasClasses aliases_;
  std::vector<Op*> order_;
  std::unordered_map<const Op*, std::size_t> position_;
  TensorMap<std::vector<std::size_t>> writes_;  // positions in order_, by storage
  std::unordered_set<const Op*> erased_;
};

}  // namespace

void fuse_epilogues(Graph& graph) { EpilogueFuser(graph).run(); }

}  // namespace pando
