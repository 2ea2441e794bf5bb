// Autodiff: turns a graph into a gradient graph with a declared interface.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "pando/ir/graph.hpp"

namespace pando {

enum class ConnectionType : std::uint8_t { Fwd, FwdGrad };

/// What one input or output of a gradient graph stands for.
struct ExpectedConnection {
  Tensor* forward_tensor;
  ConnectionType type;
  bool operator==(const ExpectedConnection&) const = default;
};

struct GradGraphInfo {
  Graph* forward_graph = nullptr;
  Graph* gradient_graph = nullptr;
  /// Aligned with the gradient graph's inputs and outputs.
  std::vector<ExpectedConnection> expected_inputs;
  std::vector<ExpectedConnection> expected_outputs;
};

using GradGraphInfos = std::map<Graph*, GradGraphInfo>;

/// What becomes of a required gradient that no differentiable path leads to.
enum class Unreached : std::uint8_t { Error, LeftOut };

/// Differentiates `graph` and the graphs it calls (those in `called_graphs_info` are taken as they
/// are). A conditional gets the gradients of the branch that is taken: inputs that only the other
/// branch uses get zeros, the condition none. nullopt: all outputs provided, all inputs required.
/// Forward tensors that the gradient needs are appended to the forward graph's outputs and to its
/// existing call sites. Returns the infos of everything differentiated or supplied below `graph`.
///
/// Throws Error when an op modifies a tensor (views in place are allowed), when a required gradient
/// cannot be produced (unless `unreached` leaves it out), when a list is given but empty or has a
/// tensor of another graph, and when a called graph without info is marked not differentiable.
GradGraphInfos autodiff(Graph& graph, const std::optional<std::vector<Tensor*>>& grads_provided,
                        const std::optional<std::vector<Tensor*>>& grads_required,
                        const GradGraphInfos& called_graphs_info = {},
                        Unreached unreached = Unreached::Error);

}  // namespace pando
