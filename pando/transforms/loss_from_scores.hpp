// Losses of labels with their gradients, from scores.
#pragma once

#include "pando/ir/graph.hpp"

namespace pando {

/// `NlllWithSoftmaxGradDirect(Softmax(scores), labels)` reads the scores itself where nothing else
/// reads the probabilities: they are made, read and overwritten while their row is in the cache.
/// Only float32, and a softmax of the last dimension without a scale or band.
void take_losses_from_scores(Graph& graph);

}  // namespace pando
