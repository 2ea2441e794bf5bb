#include "pando/compile/placement.hpp"

#include <algorithm>
#include <compare>
#include <limits>
#include <optional>
#include <vector>

#include "pando/base/error.hpp"

namespace pando {
namespace {

/// An op with a side effect runs even if its output could be a view.
bool is_view_op(const Op& op) { return op.def().view != nullptr && !op.def().has_side_effects; }

/// Each device has a value of its own, so that neither waits for the other to have done with it.
bool crosses_devices(const Op& op) {
  return op.def().moves_devices &&
         op.attributes.integer("source") != op.attributes.integer("destination");
}

/// Position of the last op that reads a tensor, through any chain of view ops.
TensorMap<int> last_uses(const Graph& graph) {
  TensorMap<int> last(-1);
  for (const Tensor* output : graph.outputs()) last[output] = std::numeric_limits<int>::max();
  for (std::size_t i = graph.ops().size(); i-- > 0;) {
    const Op& op = *graph.ops()[i];
    int used = static_cast<int>(i);
    const bool aliases = is_view_op(op) || op.def().output_alias != nullptr;
    if (aliases) {
      for (const Tensor* output : op.outputs()) {
        used = std::max(used, last.at(output));
      }
    }
    for (const Tensor* input : op.inputs()) {
      if (input == nullptr) continue;
      int& entry = last[input];
      entry = std::max(entry, used);
    }
  }
  return last;
}

/// Whether every in-place view of `tensor`, and of those in turn, exists if it has the layout
/// `view`.
bool in_place_views_exist(const Tensor& tensor, const View& view) {
  return std::all_of(tensor.uses().begin(), tensor.uses().end(), [&](const Use& use) {
    const Op& op = *use.op;
    if (!op.def().output_alias) return true;
    for (int k = 0; k < op.num_outputs(); ++k) {
      if (op.def().output_alias(op, k) != use.index) continue;
      const std::optional<View> next = is_view_op(op) ? op.def().view(op, k, view) : view;
      if (!next || !in_place_views_exist(*op.output(k), *next)) return false;
    }
    return true;
  });
}

}  // namespace

struct Placements::WriteHistory {
  WriteHistory(const Graph& graph, const AliasClasses& aliases) : last_use_(last_uses(graph)) {
    for (std::size_t i = 0; i < graph.ops().size(); ++i) {
      const Op& op = *graph.ops()[i];
      for (int k : op.modified_inputs()) {
        if (op.input(k) == nullptr) continue;
        const Tensor* root = aliases.root(op.input(k));
        writes_.push_back({root->number(), static_cast<int>(i)});
        written_.insert(root);
      }
    }
    std::sort(writes_.begin(), writes_.end());
  }

  bool written_within(const Tensor* root, int after, int until) const {
    if (!ever_written(root)) return false;
    const auto next =
        std::upper_bound(writes_.begin(), writes_.end(), Write{root->number(), after});
    return next != writes_.end() && next->root == root->number() && next->position <= until;
  }
  bool ever_written(const Tensor* root) const { return written_.contains(root); }
  int last_use_of(const Tensor* tensor) const { return last_use_.at(tensor); }

 private:
  struct Write {
    std::size_t root;  // Tensor::number of the storage's owner
    int position;
    auto operator<=>(const Write&) const = default;
  };
  std::vector<Write> writes_;  // ascending
  TensorSet written_;
  TensorMap<int> last_use_;
};

Placements::Placements(const Graph& graph) : classes_(graph) {
  const WriteHistory writes(graph, classes_);
  for (Tensor* input : graph.inputs()) place_whole(input);
  for (Tensor* source : graph.tensors().sources()) place_whole(source);
  for (std::size_t i = 0; i < graph.ops().size(); ++i) {
    place_op(*graph.ops()[i], static_cast<int>(i), writes);
  }
}

void Placements::place_whole(Tensor* tensor) {
  auto known = whole_views_.find(tensor->shape());
  if (known == whole_views_.end()) {
    known = whole_views_.emplace(tensor->shape(), View::contiguous(tensor->shape())).first;
  }
  placements_[tensor] = {tensor, &known->second};
}

void Placements::place_op(const Op& op, int position, const WriteHistory& writes) {
  for (int k = 0; k < op.num_outputs(); ++k) {
    Tensor* output = op.output(k);
    const int alias = op.def().output_alias ? op.def().output_alias(op, k) : -1;
    if (alias >= 0) {
      const Placement input = of(op.input(alias));
      if (!is_view_op(op)) {
        placements_[output] = input;
        continue;
      }
      std::optional<View> view = op.def().view(op, k, *input.view);
      if (!view) {
        throw NotSupported(str_cat(describe(op), ": the tensor '", op.input(alias)->name(),
                                   "' is not laid out so that it can be viewed in place; use the "
                                   "out-of-place op"));
      }
      placements_[output] = {input.root, &other_views_.emplace_back(std::move(*view))};
      continue;
    }
    place_whole(output);
    if (!is_view_op(op)) continue;
    const Placement input = of(op.input(0));
    std::optional<View> view = op.def().view(op, k, *input.view);
    const bool visible = writes.ever_written(output) ||
                         writes.written_within(input.root, position, writes.last_use_of(output));
    if (crosses_devices(op) || !view || visible || !in_place_views_exist(*output, *view)) continue;
    classes_.join(output, input.root);
    placements_[output] = {input.root, &other_views_.emplace_back(std::move(*view))};
    elided_.insert(&op);
  }
}

}  // namespace pando
