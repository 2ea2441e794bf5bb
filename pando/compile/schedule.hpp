// Order of execution with a low memory peak.
#pragma once

#include <vector>

#include "pando/ir/graph.hpp"
#include "pando/transforms/dependencies.hpp"

namespace pando {

/// Reorders every graph by greedy list scheduling: of the ops whose predecessors have run, the one
/// that adds least to (or takes most from) the bytes alive runs next, counted with the ops that
/// only wait for it and free some; views and ops without memory cost run at once; ties keep
/// creation order; what makes a tensor from nothing (a load, a fill) runs when nothing else can, in
/// creation order. Deterministic.
///
/// A graph whose ops run on several devices stays as it is: its order says which work of one device
/// comes first, and so what the others can do meanwhile.
void schedule_for_memory(Ir& ir);

}  // namespace pando
