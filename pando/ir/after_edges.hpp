// Which ops of a graph must run before others although no tensor says so.
#pragma once

#include <vector>

namespace pando {

class Op;

/// The edges of one op, which is their owner: its predecessors, and those whose predecessor it is.
class AfterEdges {
 public:
  const std::vector<Op*>& earlier() const { return earlier_; }

  static void add(Op& op, Op& earlier);
  /// Instead of those that there are.
  static void set(Op& op, std::vector<Op*> earlier);
  /// Takes the edges of `erased` away. Order through them survives: who came after one of them
  /// comes after its predecessors.
  static void bridge(const std::vector<Op*>& erased);

 private:
  std::vector<Op*> earlier_;
  std::vector<Op*> later_;  // those whose `earlier_` lists the owner, as often as they do
};

}  // namespace pando
