// Parts of a convolution that threads compute apart.
#pragma once

#include <cstdint>
#include <vector>

#include "pando/backends/cpu/kernels/conv.hpp"

namespace pando::cpu {

/// A part of a convolution as one of its own, and where its images begin.
struct ConvPiece {
  ConvProblem problem;
  std::int64_t first_data = 0, first_result = 0;  // elements
};

/// `count` parts of the batch.
std::vector<ConvPiece> pieces_of_batch(const ConvProblem& problem, std::int64_t count);

/// Parts of the rows of each sample, for fewer samples than threads; empty where rows cannot be
/// cut. Cuts are moved down by `shift` rows from where they are most even.
std::vector<ConvPiece> pieces_of_rows(const ConvProblem& problem, int num_threads,
                                      std::int64_t shift);

}  // namespace pando::cpu
