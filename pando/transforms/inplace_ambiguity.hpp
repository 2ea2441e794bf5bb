// Writes in place that other ops may see or not.
#pragma once

#include "pando/ir/graph.hpp"

namespace pando {

/// Throws Error (`Inplacing ambiguity detected...`) when some op of any graph writes a tensor that
/// another op reads or writes without an order by data flow or put_in_sequence. Two calls that
/// modify one tensor by reference are exempt: they run in creation order.
void check_inplace_ambiguity(const Ir& ir);

}  // namespace pando
