// Gradient accumulation: a gradient graph that keeps the running mean, or the sum, of gradients.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pando/transforms/autodiff.hpp"

namespace pando {

struct Accumulation {
  Tensor* counter;                    // float32 scalar, by reference
  std::vector<Tensor*> accumulators;  // by reference; shape and dtype of the forward tensors
  GradGraphInfo info;                 // without the accumulated outputs
};

enum class AccumulationKind : std::uint8_t { Mean, Sum };

/// Accumulates the last `names.size()` outputs of the gradient graph of `info`, which are outputs
/// no more. Adds to it the input `counter_name` and one input per name. Each run with counter c
/// does `accumulator = c/(c+1) accumulator + 1/(c+1) gradient` for all of them and then adds 1 to
/// the counter: a counter of 0 starts afresh. Of Sum: `accumulator = s accumulator + gradient`,
/// with s = 0 for a counter of 0, else 1.
Accumulation accumulate_gradients(const GradGraphInfo& info, const std::string& counter_name,
                                  const std::vector<std::string>& names, AccumulationKind kind,
                                  const OpContext& context);

}  // namespace pando
