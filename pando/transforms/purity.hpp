// Which ops are functions of their input values alone.
#pragma once

#include "pando/transforms/dependencies.hpp"

namespace pando {

/// Looks at a graph as it is when constructed; replacing uses of pure ops keeps the answers valid.
class Purity {
 public:
  explicit Purity(const Graph& graph);

  /// No effects, no called graphs, no writes or aliases, and neither an input nor an output lives
  /// in a storage that some op of the graph writes.
  bool is_pure(const Op& op) const;
  bool is_written(const Tensor& tensor) const { return written_.contains(aliases_.root(&tensor)); }

 private:
  AliasClasses aliases_;
  TensorSet written_;  // roots
};

}  // namespace pando
