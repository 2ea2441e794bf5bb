// Where every tensor of a scheduled graph lives: which storage, through which view.
#pragma once

#include <deque>
#include <map>

#include "pando/base/error.hpp"
#include "pando/ir/graph.hpp"
#include "pando/ir/numbered_map.hpp"
#include "pando/transforms/dependencies.hpp"

namespace pando {

/// A window on the storage owned by `root`; offsets and strides in elements.
struct Placement {
  Tensor* root = nullptr;
  const View* view = nullptr;  // of the Placements; tensors share it

  /// Whether `tensor`, which is placed here, is all of its root, in order.
  bool covers_root(const Tensor& tensor) const {
    return view->offset == 0 && view->is_contiguous() && tensor.info.bytes() == root->info.bytes();
  }
};

/// In-place outputs and in-place views share their input's storage. An out-of-place view op means a
/// copy; it is elided (becomes a view) when strides allow and no write to either side can be seen
/// through the other before its last use in the graph's op order.
class Placements {
 public:
  /// Throws NotSupported when an in-place view needs strides that do not exist.
  explicit Placements(const Graph& graph);
  Placements(const Placements&) = delete;
  Placements& operator=(const Placements&) = delete;

  const Placement& of(const Tensor* tensor) const {
    const Placement& placement = placements_.at(tensor);
    internal_check(placement.root != nullptr, "a tensor must be placed before it is used");
    return placement;
  }
  bool is_elided(const Op& op) const { return elided_.contains(&op); }
  /// In-place aliases and elided views joined.
  const AliasClasses& classes() const { return classes_; }

 private:
  struct WriteHistory;
  void place_op(const Op& op, int position, const WriteHistory& writes);
  /// `tensor` owns its storage.
  void place_whole(Tensor* tensor);

  AliasClasses classes_;
  std::map<Shape, View> whole_views_;  // of tensors that own their storages
  std::deque<View> other_views_;
  TensorMap<Placement> placements_;
  OpSet elided_;
};

}  // namespace pando
