// Turns a scheduled graph into a function of steps, with every storage, copy and kernel it needs.
#pragma once

#include <unordered_set>

#include "pando/compile/called_functions.hpp"
#include "pando/compile/placement.hpp"

namespace pando {

/// The ops of the main graph that one of the program's entries runs, and the storages that several
/// of them touch.
struct MainPart {
  ExecutionContext execution;
  std::unordered_set<const Tensor*> shared_roots;
};

/// `part`: of the main graph; nullptr: the whole graph.
StepFunction lower_function(const FunctionRequest& request, const Placements& placements,
                            const MainPart* part, ProgramTables& tables,
                            CalledFunctions& functions);

}  // namespace pando
