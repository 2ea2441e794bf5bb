// Pipelining: stages of a graph that work on different micro-batches at the same time.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "pando/ir/graph.hpp"
#include "pando/transforms/pipeline_schedule.hpp"

namespace pando {

/// Moves `ops` (each with its stage, 0, 1, ...) of `graph` into a new graph
/// `pipeline_graph_subgraph(<n>)`, called once in their place, which runs them for `steps`
/// micro-batches in the cycles of the returned schedule; a Loop runs the main cycles.
///
/// The stages of one cycle use nothing of each other, so that devices run them side by side: a
/// tensor that stage s makes and stage t > s uses waits t - s cycles in a row of t - s slots (the
/// stash of an activation that its gradient needs). The results are those of running all stages in
/// order for one micro-batch after the other, if state is only read in the stage that writes it.
///
/// Throws ValueError: fewer steps than stages, a stage without ops. Throws Error: a stage uses what
/// a later one makes, or writes in place what another stage makes; two stages use one host stream;
/// something outside the pipeline uses a tensor made inside.
PipelineSchedule pipeline(Graph& graph, const std::vector<std::pair<Op*, std::int64_t>>& ops,
                          std::int64_t steps, const OpContext& context);

}  // namespace pando
