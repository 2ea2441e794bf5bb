#include "pando/ir/after_edges.hpp"

#include <algorithm>
#include <cstddef>
#include <unordered_set>

#include "pando/ir/op.hpp"

namespace pando {
namespace {

/// Keeps each op once, in the order of their ids.
void keep_distinct(std::vector<Op*>& ops) {
  std::sort(ops.begin(), ops.end(), [](const Op* a, const Op* b) { return a->id() < b->id(); });
  ops.erase(std::unique(ops.begin(), ops.end()), ops.end());
}

}  // namespace

void AfterEdges::add(Op& op, Op& earlier) {
  op.after_.earlier_.push_back(&earlier);
  earlier.after_.later_.push_back(&op);
}

void AfterEdges::set(Op& op, std::vector<Op*> earlier) {
  for (Op* former : op.after_.earlier_) {
    auto& later = former->after_.later_;
    later.erase(std::find(later.begin(), later.end(), &op));
  }
  op.after_.earlier_ = std::move(earlier);
  for (Op* now : op.after_.earlier_) now->after_.later_.push_back(&op);
}

void AfterEdges::bridge(const std::vector<Op*>& erased) {
  const auto in_no_order = [](const Op* op) {
    return op->after_.earlier_.empty() && op->after_.later_.empty();
  };
  if (std::all_of(erased.begin(), erased.end(), in_no_order)) return;
  const std::unordered_set<const Op*> gone(erased.begin(), erased.end());
  std::vector<Op*> later_ops, earlier_ops;
  for (Op* op : erased) {
    const AfterEdges& edges = op->after_;
    later_ops.insert(later_ops.end(), edges.later_.begin(), edges.later_.end());
    earlier_ops.insert(earlier_ops.end(), edges.earlier_.begin(), edges.earlier_.end());
  }
  keep_distinct(later_ops);
  keep_distinct(earlier_ops);
  for (Op* op : later_ops) {
    if (gone.contains(op)) continue;
    std::vector<Op*>& after = op->after_.earlier_;
    for (std::size_t i = 0; i < after.size();) {
      const Op* earlier = after[i];
      if (!gone.contains(earlier)) {
        ++i;
        continue;
      }
      after.erase(after.begin() + static_cast<std::ptrdiff_t>(i));
      for (Op* before : earlier->after_.earlier_) {
        if (std::find(after.begin(), after.end(), before) == after.end()) add(*op, *before);
      }
    }
  }
  for (Op* op : earlier_ops) {
    std::erase_if(op->after_.later_, [&](const Op* later) { return gone.contains(later); });
  }
  for (Op* op : erased) op->after_ = AfterEdges();
}

}  // namespace pando
