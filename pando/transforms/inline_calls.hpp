// Puts the bodies of small and single-use graphs in the place of their calls.
#pragma once

#include "pando/ir/graph.hpp"

namespace pando {

/// Inlines a call when its callee is called from one site only, or has at most 8 ops and calls
/// nothing, or only loads and stores remote memory. Everything else stays a function, so that code
/// size and compile time do not grow with the number of calls. Value semantics of inputs and
/// outputs are kept with Identity ops, which the compiler elides where no write can be seen through
/// them.
///
/// Why at all: a weight gradient and the optimizer step that consumes it meet in one graph, so the
/// scheduler can run them back to back and the fuser can join them.
void inline_calls(Ir& ir);

}  // namespace pando
