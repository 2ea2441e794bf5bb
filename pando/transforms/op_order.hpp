// Which ops of a graph must run before which.
#pragma once

#include <cstdint>
#include <vector>

#include "pando/ir/graph.hpp"

namespace pando {

/// Two positions in `graph.ops()`, the earlier one first.
struct OpPair {
  int earlier;
  int later;
};

/// The order that data flow and in_sequence give, of a graph as it is when constructed.
class OpOrder {
 public:
  explicit OpOrder(const Graph& graph);

  /// For every pair whether the earlier op always runs before the later one. Takes memory for the
  /// ops and pairs, and time for a pass over the ops in between for each 64 ops that have pairs.
  std::vector<bool> are_ordered(const std::vector<OpPair>& pairs) const;

 private:
  /// One op of some pairs.
  using End = int OpPair::*;

  bool is_direct(const OpPair& pair) const;
  void follow(const std::vector<OpPair>& pairs, std::vector<std::size_t> numbers, End end,
              std::vector<bool>& ordered) const;
  void spread_forward(int first, int last, std::vector<std::uint64_t>& bits) const;
  void spread_backward(int first, int last, std::vector<std::uint64_t>& bits) const;

  // The predecessors of op i: predecessors_[begins_[i]] to predecessors_[begins_[i + 1]].
  std::vector<std::size_t> begins_ = {0};
  std::vector<int> predecessors_;
};

}  // namespace pando
