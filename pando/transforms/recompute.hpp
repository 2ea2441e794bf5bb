// Recomputation: a gradient graph that runs the forward graph again instead of keeping its
// activations.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "pando/transforms/autodiff.hpp"

namespace pando {

/// Inputs for a graph that recomputes, and what they stand for.
struct RecomputeInputs {
  std::vector<std::pair<Tensor*, Tensor*>> forward;   // forward graph input, new input
  std::vector<std::pair<Tensor*, Tensor*>> gradient;  // gradient graph input, new input
  std::vector<ExpectedConnection> expected;           // of the new inputs, in order
};

/// Adds to `target`: the output gradients and forward inputs that the gradient graph takes, in its
/// order; the other forward inputs by name; then what the gradient graph takes beside these
/// (accumulators, by reference where they are) by name.
RecomputeInputs add_recompute_inputs(Graph& target, const GradGraphInfo& info);

struct Recomputation {
  GradGraphInfo info;
  RecomputeInputs inputs;
};

/// A graph called `<name>_subgraph(<n>)` that calls the forward graph and then the gradient graph
/// of `info` with the fresh activations. Same outputs; it expects forward *inputs* only. Throws
/// ValueError when the forward graph writes an input, which a second run would write again.
Recomputation recompute(const GradGraphInfo& info, const std::string& name,
                        const OpContext& context);

}  // namespace pando
