// Calls of functions of the host, which programs name and runners are given.
#pragma once

#include <string>
#include <vector>

#include "pando/ir/graph.hpp"

namespace pando {

/// The attributes of a HostCall of `function` whose outputs are as `outputs` say. `gradient`: the
/// function that gives the gradients of its inputs; empty: it has none.
Attributes host_call_attributes(const std::string& function, const std::vector<TensorInfo>& outputs,
                                const std::string& gradient = {});

}  // namespace pando
