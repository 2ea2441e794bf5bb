// Alias classes and the order that ops of one graph must keep.
#pragma once

#include <cstddef>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "pando/ir/graph.hpp"
#include "pando/ir/numbered_map.hpp"

namespace pando {

/// Partition of a graph's tensors by storage. The root of a class is the tensor that owns the
/// storage: the oldest one.
class AliasClasses {
 public:
  /// Joins in-place outputs with the inputs they are (`OpDef::output_alias`).
  explicit AliasClasses(const Graph& graph);

  /// The same for the outputs of an op made since.
  void add(const Op& op);

  Tensor* root(const Tensor* tensor) const;
  /// Declares that `tensor` lives in the storage of `other`.
  void join(Tensor* tensor, Tensor* other) { parent_[tensor] = root(other); }

 private:
  TensorMap<Tensor*> parent_;  // nullptr: owns its storage
};

/// What ops and the graphs that they call touch besides tensors: the names of streams, buffers and
/// the terminal. Looks at every graph once: for graphs that keep the ops that have effects.
class EffectNames {
 public:
  std::set<std::string> of(const Op& op);

 private:
  void add_known(const Op& op, std::set<std::string>& effects) const;

  std::unordered_map<const Graph*, std::set<std::string>> of_graphs_;
};

/// The predecessors of every op of a graph, all in one list.
class OpPredecessors {
 public:
  explicit OpPredecessors(std::size_t num_ops) { ends_.reserve(num_ops); }

  /// Of the op after the last one that was added.
  void add(std::span<const int> predecessors) {
    all_.insert(all_.end(), predecessors.begin(), predecessors.end());
    ends_.push_back(all_.size());
  }
  /// Each once. `op`: a position in `Graph::ops()`, as they are.
  std::span<const int> of(std::size_t op) const {
    const std::size_t begin = op == 0 ? 0 : ends_[op - 1];
    return std::span(all_).subspan(begin, ends_[op] - begin);
  }

 private:
  std::vector<int> all_;
  std::vector<std::size_t> ends_;  // by op
};

/// Predecessors of every op: producers of its inputs, and earlier ops whose access to a storage,
/// stream, remote buffer or the terminal conflicts with its own. Conflicting accesses keep creation
/// order. `Op::after` is not included: the order of ops that do not conflict cannot be observed.
OpPredecessors dependencies(const Graph& graph, const AliasClasses& aliases, EffectNames& effects);

/// Inputs of `graph` that its ops write (directly, through views or through calls).
std::vector<bool> modified_graph_inputs(const Graph& graph, const AliasClasses& aliases);

}  // namespace pando
