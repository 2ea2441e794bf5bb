// How oneDNN's convolutions are split for threads, with weights in one layout for all parts.
#pragma once

#include <dnnl.hpp>
#include <vector>

#include "pando/backends/cpu/onednn/conv_pieces.hpp"
#include "pando/backends/cpu/onednn/conv_primitive.hpp"

namespace pando::cpu {

/// Parts of a convolution, each with its primitive.
struct ConvSplit {
  std::vector<ConvPiece> pieces;
  std::vector<ConvPrimitive> primitives;
  dnnl::memory::desc weights;  // as all primitives have them
  bool are_rows = false;       // of single samples
};

/// The split with the most even parts of those whose primitives are not oneDNN's reference, if
/// there is one. Throws dnnl::error.
ConvSplit split_conv(ConvPass pass, const ConvProblem& problem, int num_threads);

}  // namespace pando::cpu
