#include "pando/transforms/find_attention.hpp"

#include <cmath>
#include <limits>
#include <optional>

#include "pando/base/band.hpp"
#include "pando/ir/graph_surgery.hpp"
#include "pando/ir/op_def.hpp"
#include "pando/ops/rules.hpp"
#include "pando/transforms/constant_masks.hpp"
#include "pando/transforms/graph_calls.hpp"
#include "pando/transforms/purity.hpp"
#include "pando/transforms/readers.hpp"

namespace pando {
namespace {

/// The ops of one attention, from the scores to the result, and what they read.
struct Attention {
  std::vector<Op*> ops;  // in the order of the graph, the last first
  Tensor *q = nullptr, *keys_transposed = nullptr, *v = nullptr;
  Tensor *mask = nullptr, *seed = nullptr;
  Attributes attributes;
};

/// Matrices with equal batch dimensions, multiplied in their dtype, which is that of the result.
bool is_product(const Op& op) {
  if (op.kind() != OpKind::MatMul || op.num_inputs() != 2) return false;
  const Tensor &lhs = *op.input(0), &rhs = *op.input(1);
  const DType dtype = op.output(0)->dtype();
  return is_half_or_single_precision(dtype) && lhs.dtype() == dtype && rhs.dtype() == dtype &&
         lhs.shape().size() >= 2 && lhs.shape().size() == rhs.shape().size() &&
         std::equal(lhs.shape().begin(), lhs.shape().end() - 2, rhs.shape().begin());
}

class AttentionFinder {
 public:
  explicit AttentionFinder(Graph& graph) : graph_(graph), purity_(graph) {}

  void run() {
    const std::vector<Op*> ops = graph_.ops();
    for (Op* op : ops) {
      if (const std::optional<Attention> found = ending_at(*op)) replace(*found);
    }
  }

 private:
  /// The op that makes `tensor` for one of `attention` alone; nullptr if there is none.
  Op* only_maker(const Tensor& tensor, const Attention& attention) const {
    Op* producer = tensor.producer();
    if (producer == nullptr || &producer->graph() != &graph_) return nullptr;
    if (only_reader(tensor) != attention.ops.back() || !purity_.is_pure(*producer)) return nullptr;
    return producer->called_graphs.empty() ? producer : nullptr;
  }

  std::optional<Attention> ending_at(Op& last) const {
    if (!is_product(last) || !purity_.is_pure(last)) return std::nullopt;
    Attention found;
    found.ops = {&last};
    found.v = last.input(1);
    Op* op = only_maker(*last.input(0), found);
    if (op != nullptr && op->kind_name() == "Dropout") {
      found.attributes.set("p", op->attributes.number("p"));
      found.seed = op->input(1);
      found.ops.push_back(op);
      op = only_maker(*op->input(0), found);
    }
    if (op == nullptr || !is_softmax_of_rows(*op)) return std::nullopt;
    found.ops.push_back(op);
    op = only_maker(*op->input(0), found);
    op = take_mask(op, found);
    op = take_scale(op, found);
    if (op == nullptr || !is_product(*op) || op->output(0)->dtype() != last.output(0)->dtype()) {
      return std::nullopt;
    }
    if (!found.attributes.has("scale")) found.attributes.set("scale", 1.0);
    found.ops.push_back(op);
    found.q = op->input(0);
    found.keys_transposed = op->input(1);
    return found;
  }

  static bool is_softmax_of_rows(const Op& op) {
    const auto rank = static_cast<std::int64_t>(op.output(0)->shape().size());
    return op.kind() == OpKind::Softmax && rank >= 2 && op.attributes.integer("axis") == rank - 1 &&
           !op.attributes.has("band") && !op.attributes.has("scale");
  }

  /// Goes from a mask, if `op` is one, to what makes the scores; else stays.
  Op* take_mask(Op* op, Attention& found) const {
    if (op == nullptr || (op->kind() != OpKind::Add && op->kind() != OpKind::Where)) return op;
    const Tensor& result = *op->output(0);
    const std::vector<int> candidates =
        op->kind() == OpKind::Add ? std::vector<int>{0, 1} : std::vector<int>{1};
    for (int scores : candidates) {
      Tensor* input = op->input(scores);
      if (input == nullptr || input->info.shape != result.shape() ||
          input->dtype() != result.dtype()) {
        continue;
      }
      found.ops.push_back(op);
      Op* maker = only_maker(*input, found);
      if (maker != nullptr && makes_scores(*maker) && set_mask(*op, scores, found)) return maker;
      found.ops.pop_back();
    }
    return nullptr;
  }

  static bool makes_scores(const Op& op) {
    return op.kind() == OpKind::MatMul || op.kind() == OpKind::Mul || op.kind() == OpKind::Div;
  }

  static bool set_mask(const Op& mask, int scores, Attention& found) {
    const Shape& shape = mask.output(0)->shape();
    const auto band = band_kept_by(mask, scores);
    if (band && band->lower >= 0 && band->upper >= 0) {
      const std::int64_t rows = shape[shape.size() - 2], columns = shape.back();
      found.attributes.set("window", Ints{band->lower >= rows - 1 ? -1 : band->lower,
                                          band->upper >= columns - 1 ? -1 : band->upper});
      return true;
    }
    if (mask.kind() == OpKind::Where) {
      const auto hidden = scalar_of(*mask.input(2));
      if (!hidden || *hidden != -std::numeric_limits<double>::infinity()) return false;
      found.mask = mask.input(0);
      return found.mask->dtype() == DType::Bool;
    }
    found.mask = mask.input(1 - scores);
    return found.mask->dtype() == mask.output(0)->dtype();
  }

  /// Goes from a product with a constant, if `op` is one, to what makes the scores; else stays.
  Op* take_scale(Op* op, Attention& found) const {
    if (op == nullptr || (op->kind() != OpKind::Mul && op->kind() != OpKind::Div)) return op;
    for (int scores : {0, 1}) {
      if (scores == 1 && op->kind() == OpKind::Div) continue;
      Tensor* input = op->input(scores);
      const auto factor = scalar_of(*op->input(1 - scores));
      if (!factor || input->info != op->output(0)->info) continue;
      const double scale = op->kind() == OpKind::Div ? 1 / *factor : *factor;
      if (!std::isfinite(scale)) continue;
      found.ops.push_back(op);
      found.attributes.set("scale", scale);
      return only_maker(*input, found);
    }
    return nullptr;
  }

  void replace(const Attention& found) {
    Op& last = *found.ops.front();
    graph_.set_insertion_point(&last);
    OpBuilder builder(graph_, last.context);
    Tensor* keys = transposed(builder, found.keys_transposed);
    std::vector<Tensor*> inputs = {found.q, keys, found.v};
    if (found.mask != nullptr || found.seed != nullptr) inputs.push_back(found.mask);
    if (found.seed != nullptr) inputs.push_back(found.seed);
    const Op& made = builder.op("ScaledDotProductAttention", inputs, found.attributes);
    graph_.set_insertion_point(nullptr);
    replace_uses(*last.output(0), *made.output(0));
    erase_moved_ops(graph_, {found.ops.rbegin(), found.ops.rend()});
  }

  Graph& graph_;
  Purity purity_;
};

}  // namespace

void find_attention(Graph& graph) {
  if (graph.op_list().has(OpKind::Softmax)) AttentionFinder(graph).run();
}

}  // namespace pando
