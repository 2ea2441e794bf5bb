// Checks an Ir against its own rules.
#pragma once

#include <string>

#include "pando/ir/graph.hpp"

namespace pando {

/// Which rule of its kind `op` breaks, as text naming the op; empty when it breaks none. Rules:
/// attributes match the schema, the number of inputs, `infer` agrees with the outputs (dtype and
/// shape; this includes that call sites match their callees), modified inputs and aliases exist,
/// named streams and remote buffers exist.
std::string op_fault(const Op& op);

/// Throws InternalError naming the op and the rule when `ir` breaks one: ids are unique; tensors,
/// producers and uses agree; inputs, outputs and `after` stay inside one graph; every input is made
/// before it is used; called graphs belong to the Ir and never call themselves; host data has the
/// size of its tensor; and no op has an `op_fault`. `stage` says where in the compiler we are.
void verify(const Ir& ir, const std::string& stage = "");

}  // namespace pando
