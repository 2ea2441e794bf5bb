// Bias and activation as part of the product before them.
#pragma once

#include "pando/ir/graph.hpp"

namespace pando {

/// Replaces MatMul, Add of a row vector and an activation (either may be missing, and a Reshape
/// that keeps the columns may stand after the product) by MatMulEpilogue, where nothing else reads
/// what lies between. float32 only: narrower dtypes round in between.
void fuse_epilogues(Graph& graph);

}  // namespace pando
