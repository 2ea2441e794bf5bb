// Brings a tensor into graphs below its own.
#pragma once

#include "pando/ir/graph.hpp"

namespace pando {

/// The tensor of `target` that stands for `tensor`: itself in its own graph, else an input of
/// `target` that every call, loop and branch on every path from the graph of `tensor` passes on.
/// Inputs that already do so are used again. `modified`: passed by reference.
///
/// Throws ValueError when `target` is not called from the graph of `tensor`, or also from
/// elsewhere; NotSupported for a modified tensor through an If.
Tensor& route_tensor(Tensor& tensor, Graph& target, bool modified = false);

}  // namespace pando
