// Softmax without the maximum.
#pragma once

#include "pando/ir/graph.hpp"

namespace pando {

/// Replaces every Softmax by e^x over its sum, computed in float32 or wider. Equal to Softmax where
/// nothing overflows; rows with e^x beyond the range become NaN. Those with a scale or a band,
/// which no program builds, stay.
void use_plain_softmax(Graph& graph);

}  // namespace pando
