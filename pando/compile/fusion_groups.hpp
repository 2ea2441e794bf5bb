// Groups the ops of a scheduled graph into execution steps.
#pragma once

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "pando/compile/placement.hpp"
#include "pando/ir/graph.hpp"

namespace pando {

/// One step of execution: a single op, or pointwise ops of one shape that run as one kernel making
/// one pass over memory.
struct ExecutionStep {
  std::span<Op* const> ops;
  bool pointwise = false;
};

/// The steps of a graph, in order.
class ExecutionSteps {
 public:
  /// `steps`: with ops among `ops`, which are in one list because most steps have a single one.
  ExecutionSteps(std::vector<Op*> ops, std::vector<ExecutionStep> steps)
      : ops_(std::move(ops)), steps_(std::move(steps)) {}
  ExecutionSteps(const ExecutionSteps&) = delete;
  ExecutionSteps& operator=(const ExecutionSteps&) = delete;

  std::size_t size() const { return steps_.size(); }
  const ExecutionStep& operator[](std::size_t index) const { return steps_[index]; }

 private:
  std::vector<Op*> ops_;
  std::vector<ExecutionStep> steps_;
};

/// Walks the ops in order. A pointwise op joins the latest earlier pointwise step that has its
/// shape and touches one of its storages, if everything it depends on has run by then and every
/// storage written in the step is accessed through one view only. One that is repeated joins the
/// last step only. Elided views take no step.
/// `most_ops`: of one step, see Target::most_fused_ops.
ExecutionSteps form_steps(const Graph& graph, const Placements& placements, std::size_t most_ops,
                          EffectNames& effects);

}  // namespace pando
