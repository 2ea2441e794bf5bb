// Groups the ops of a scheduled graph into execution steps.
#pragma once

#include <vector>

#include "pando/compile/placement.hpp"
#include "pando/ir/graph.hpp"

namespace pando {

/// One step of execution: a single op, or pointwise ops of one shape that run as one kernel making
/// one pass over memory.
struct ExecutionStep {
  std::vector<Op*> ops;
  bool pointwise = false;
};

/// Walks the ops in order. A pointwise op joins the latest earlier pointwise step that has its
/// shape and touches one of its storages, if everything it depends on has run by then and every
/// storage written in the step is accessed through one view only. Elided views take no step.
/// `most_ops`: of one step, see Target::most_fused_ops.
std::vector<ExecutionStep> form_steps(const Graph& graph, const Placements& placements,
                                      std::size_t most_ops, EffectNames& effects);

}  // namespace pando
