// Attention that looks back, or not far: nothing is computed where its mask hides everything.
#pragma once

#include "pando/ir/graph.hpp"

namespace pando {

/// Softmax over the rows of float32 products, times a constant or not, plus a constant mask that is
/// 0 in a band of diagonals and -1e8 or less elsewhere, or of Where with such a condition and
/// value, becomes Softmax with the attributes band and scale. Its gradients, and the products that
/// make or use its matrices, are told the band, also in called graphs when all calls agree.
///
/// The same results as before while scores are less than 1e8 apart, except that what is masked
/// need not be finite: NaN there, which e^x or 0 times NaN brought into the rest, is not computed.
void find_bands(Ir& ir);

}  // namespace pando
