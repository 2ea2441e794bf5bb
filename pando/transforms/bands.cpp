#include "pando/transforms/bands.hpp"

#include <cmath>
#include <memory>
#include <unordered_map>
#include <unordered_set>

#include "pando/base/band.hpp"
#include "pando/ir/graph_surgery.hpp"
#include "pando/ir/op_def.hpp"
#include "pando/transforms/call_facts.hpp"
#include "pando/transforms/constant_masks.hpp"
#include "pando/transforms/graph_calls.hpp"
#include "pando/transforms/readers.hpp"

namespace pando {
namespace {

/// A Softmax as it could be written: of `scores` times `scale`, in `band`.
struct MaskedSoftmax {
  Op* softmax = nullptr;
  Op* mask = nullptr;
  Op* multiply = nullptr;  // by the scale, if any
  Tensor* scores = nullptr;
  Band band;
  double scale = 1;
};

class BandFinder {
 public:
  explicit BandFinder(Ir& ir) : ir_(ir) {}

  void run() {
    bool found = false;
    for_each(OpKind::Softmax, [&](Op& op) {
      const std::optional<MaskedSoftmax> masked = masked_softmax(op);
      if (!masked) return;
      if (!facts_) facts_ = std::make_unique<CallFacts>(ir_);
      // It would read them where the softmax stands, after who writes them.
      if (written_.contains(masked->scores) || facts_->is_written(*masked->scores)) return;
      replace(*masked);
      found = true;
    });
    if (!found) return;
    facts_ = std::make_unique<CallFacts>(ir_);
    for_each(OpKind::SoftmaxGrad, [&](Op& op) { mark_gradient(op); });
    bands_.clear();
    for_each(OpKind::MatMul, [&](Op& op) { mark_operands(op); });
  }

 private:
  template <class Change>
  void for_each(OpKind kind, Change change) {
    for (Graph* graph : ir_.graphs()) {
      if (!graph->op_list().has(kind)) continue;
      const std::vector<Op*> ops = graph->ops();
      for (Op* op : ops) {
        if (&op->graph() == graph && op->kind() == kind) change(*op);
      }
    }
  }

  static std::optional<MaskedSoftmax> masked_softmax(Op& op) {
    const Tensor& x = *op.input(0);
    const Shape& shape = x.shape();
    const auto rank = static_cast<std::int64_t>(shape.size());
    if (x.dtype() != DType::Float32 || rank < 2 || op.attributes.integer("axis") != rank - 1 ||
        op.attributes.has("band") || op.attributes.has("scale") || only_reader(x) != &op) {
      return std::nullopt;
    }
    MaskedSoftmax masked;
    masked.softmax = &op;
    masked.mask = x.producer();
    for (int scores : {0, 1}) {
      Tensor* input = masked.mask->input(scores);
      if (input == nullptr || input->shape() != shape) continue;
      const std::optional<Band> band = band_kept_by(*masked.mask, scores);
      if (!band) continue;
      masked.band = *band;
      masked.scores = input;
      take_scale(masked);
      // Scores of other ops may be masked themselves, in rows of which nothing is left then.
      const Op* producer = masked.scores->producer();
      if (producer == nullptr || !is_product(*producer)) return std::nullopt;
      return masked;
    }
    return std::nullopt;
  }

  static void take_scale(MaskedSoftmax& masked) {
    Op* multiply = masked.scores->producer();
    if (multiply == nullptr || only_reader(*masked.scores) != masked.mask) return;
    const bool divides = multiply->kind() == OpKind::Div;
    if (multiply->kind() != OpKind::Mul && !divides) return;
    for (int i : {0, 1}) {
      if (divides && i == 1) continue;
      Tensor* product = multiply->input(i);
      const auto factor = scalar_of(*multiply->input(1 - i));
      if (!factor || product->info != masked.scores->info) continue;
      const double scale = divides ? 1 / *factor : *factor;
      if (!std::isfinite(scale) || scale <= 0) continue;
      masked.scores = product;
      masked.scale = scale;
      masked.multiply = multiply;
      return;
    }
  }

  void replace(const MaskedSoftmax& masked) {
    Op& old = *masked.softmax;
    Graph& graph = old.graph();
    Attributes attributes = old.attributes;
    attributes.set("band", masked.band.attribute());
    if (masked.multiply != nullptr) attributes.set("scale", masked.scale);
    graph.set_insertion_point(&old);
    OpBuilder builder(graph, old.context);
    Op& softmax = builder.op("Softmax", {masked.scores}, attributes);
    graph.set_insertion_point(nullptr);
    if (facts_->is_written(*old.output(0))) written_.insert(softmax.output(0));
    replace_uses(*old.output(0), *softmax.output(0));
    std::vector<Op*> replaced = {masked.mask, &old};
    if (masked.multiply != nullptr) replaced.insert(replaced.begin(), masked.multiply);
    erase_moved_ops(graph, replaced);
    mark_result(*masked.scores, softmax, masked.band);
  }

  /// Marks a matrix product that only `reader` reads, and that only in `band`.
  static void mark_result(const Tensor& result, const Op& reader, const Band& band) {
    Op* product = result.producer();
    if (product == nullptr || only_reader(result) != &reader || !is_product(*product)) return;
    product->attributes.set("out_band", band.attribute());
  }

  static bool is_product(const Op& op) {
    if (op.kind() != OpKind::MatMul || op.num_inputs() != 2) return false;
    const Shape &lhs = op.input(0)->shape(), &rhs = op.input(1)->shape();
    return lhs.size() >= 2 && lhs.size() == rhs.size() &&
           std::equal(lhs.begin(), lhs.end() - 2, rhs.begin());
  }

  void mark_gradient(Op& op) {
    if (op.attributes.has("band")) return;
    const std::optional<Band> band = band_of(*op.input(0));
    const Shape& shape = op.input(0)->shape();
    const auto rank = static_cast<std::int64_t>(shape.size());
    if (!band || op.attributes.integer("axis") != rank - 1 ||
        !band->meets_rows(shape[shape.size() - 2], shape.back())) {
      return;
    }
    op.attributes.set("band", band->attribute());
    if (!facts_->is_written(*op.input(1))) mark_result(*op.input(1), op, *band);
    fold_scale(op);
  }

  /// The product of the gradient and a constant becomes part of the gradient.
  void fold_scale(Op& op) {
    Op* multiply = only_reader(*op.output(0));
    if (multiply == nullptr || multiply->kind() != OpKind::Mul) return;
    const Tensor* other = multiply->input(multiply->input(0) == op.output(0) ? 1 : 0);
    if (multiply->output(0)->info != op.output(0)->info || facts_->is_written(*op.output(0)) ||
        facts_->is_written(*multiply->output(0))) {
      return;
    }
    const auto factor = facts_->of(*other, scalar_of);
    if (!factor || !std::isfinite(*factor) || *factor <= 0) return;
    op.attributes.set("scale", *factor * op.attributes.number_or("scale", 1));
    replace_uses(*multiply->output(0), *op.output(0));
    erase_moved_ops(op.graph(), {multiply});
  }

  void mark_operands(Op& op) {
    if (!is_product(op)) return;
    if (const auto band = band_of(*op.input(0))) op.attributes.set("lhs_band", band->attribute());
    if (const auto band = band_of(*op.input(1))) op.attributes.set("rhs_band", band->attribute());
  }

  /// The band outside of which the matrices of `tensor` are 0, if there is one.
  std::optional<Band> band_of(const Tensor& tensor) {
    const auto [known, inserted] = bands_.try_emplace(&tensor);
    if (!inserted) return known->second;
    const auto band = facts_->of(tensor, [this](const Tensor& t) { return band_made(t); });
    bands_[&tensor] = band;
    return band;
  }

  std::optional<Band> band_made(const Tensor& tensor) {
    const Op* op = tensor.producer();
    if (op == nullptr) return std::nullopt;
    if (op->kind() == OpKind::Softmax || op->kind() == OpKind::SoftmaxGrad) {
      return band_attribute(op->attributes, "band");
    }
    if (op->kind() == OpKind::DropoutCore) return band_of(*op->input(0));
    if (op->kind() == OpKind::Where) {
      const bool same = op->input(1)->shape() == tensor.shape();
      const bool else_zero = facts_->of(*op->input(2), scalar_of) == std::optional(0.0);
      return same && else_zero ? band_of(*op->input(1)) : std::nullopt;
    }
    if (op->kind() == OpKind::Mul) {
      for (const Tensor* input : op->inputs()) {
        if (input->shape() != tensor.shape()) continue;
        if (const auto band = band_of(*input)) return band;
      }
      return std::nullopt;
    }
    return op->def().view ? band_viewed(*op, tensor) : std::nullopt;
  }

  /// A view has a band if its matrices are matrices of what is viewed, or their transposes.
  std::optional<Band> band_viewed(const Op& op, const Tensor& tensor) {
    const Tensor& source = *op.input(0);
    if (source.shape().size() < 2 || tensor.shape().size() < 2) return std::nullopt;
    const auto view = op.def().view(op, tensor.producer_index(), View::contiguous(source.shape()));
    const std::optional<Band> band = view ? band_of(source) : std::nullopt;
    if (!band) return std::nullopt;
    const std::int64_t rows = source.shape()[source.shape().size() - 2];
    const std::int64_t columns = source.shape().back();
    const std::size_t rank = view->shape.size();
    bool whole = view->offset % (rows * columns) == 0;
    for (std::size_t d = 0; d + 2 < rank; ++d) {
      whole = whole && view->strides[d] % (rows * columns) == 0;
    }
    if (!whole) return std::nullopt;
    const auto last_two = [rank](const auto& list) {
      return std::pair{list[rank - 2], list[rank - 1]};
    };
    const auto shape = last_two(view->shape), strides = last_two(view->strides);
    if (shape == std::pair{rows, columns} && strides == std::pair{columns, std::int64_t{1}}) {
      return band;
    }
    if (shape == std::pair{columns, rows} && strides == std::pair{std::int64_t{1}, columns}) {
      return band->transposed();
    }
    return std::nullopt;
  }

  Ir& ir_;
  std::unique_ptr<CallFacts> facts_;
  std::unordered_set<const Tensor*> written_;  // softmaxes of replace() that an op writes in place
  // What band_of has answered since ops were last given bands; nullopt while it looks.
  std::unordered_map<const Tensor*, std::optional<Band>> bands_;
};

}  // namespace

void find_bands(Ir& ir) { BandFinder(ir).run(); }

}  // namespace pando
