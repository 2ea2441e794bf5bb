// Updates of tables by gradients of gathers.
#pragma once

#include "pando/ir/graph.hpp"

namespace pando {

/// Where the gradient of gathers of a table is read by one update of it alone, makes no gradient of
/// the table's size: the gathered rows are added up (CoalesceRows), and the update is of these
/// rows. That is for sums in place (AddLhsInplace, Accumulate, ScaledAddLhsInplace, CopyVarUpdate
/// of a sum or difference) of a table with at least twice as many rows as indices, and for
/// SparseAdam without indices. Casts and finite factors on the way are applied to the rows. Rows of
/// several gathers are added up in one sum, whose rounding may differ from that of a sum of sums.
void use_sparse_updates(Graph& graph);

}  // namespace pando
