#include "pando/backends/cpu/onednn/conv_split.hpp"

#include <algorithm>
#include <optional>
#include <utility>

namespace pando::cpu {
namespace {

using dnnl::memory;
/// Further than this from even parts, one thread waits long for the other.
constexpr std::int64_t kMostShiftedRows = 2;

using Pieces = std::vector<ConvPiece>;
using Primitives = std::vector<ConvPrimitive>;

/// The primitives of all pieces, as oneDNN likes them best.
Primitives free_primitives(ConvPass pass, const ConvProblem& whole, const Pieces& pieces) {
  Primitives made;
  made.reserve(pieces.size());
  for (const ConvPiece& piece : pieces) {
    made.push_back(describe_conv(pass, piece.problem, whole));
  }
  return made;
}

/// The same with weights in the layout that the piece `like` has.
Primitives primitives_like(std::size_t like, ConvPass pass, const ConvProblem& whole,
                           const Pieces& pieces, Primitives free) {
  const std::size_t weights = conv_weights_operand(pass);
  const memory::desc layout = free[like].wanted[weights];
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    if (free[i].wanted[weights] == layout) continue;
    free[i] = describe_conv(pass, pieces[i].problem, whole, &layout);
  }
  return free;
}

bool has_reference(const Primitives& primitives) {
  return std::any_of(primitives.begin(), primitives.end(),
                     [](const ConvPrimitive& made) { return is_reference(made); });
}

/// Nothing where every layout of weights leaves a piece to the reference.
std::optional<Primitives> fast_primitives(ConvPass pass, const ConvProblem& whole,
                                          const Pieces& pieces) {
  const Primitives free = free_primitives(pass, whole, pieces);
  const std::size_t weights = conv_weights_operand(pass);
  for (std::size_t like = 0; like < pieces.size(); ++like) {
    const bool was_tried =
        std::any_of(free.begin(), free.begin() + static_cast<std::ptrdiff_t>(like),
                    [&](const ConvPrimitive& one) {
                      return one.wanted[weights] == free[like].wanted[weights];
                    });
    if (was_tried) continue;
    Primitives made = primitives_like(like, pass, whole, pieces, free);
    if (!has_reference(made)) return made;
  }
  return std::nullopt;
}

/// Ways to cut a convolution, the most even one first, the whole last.
struct Cut {
  Pieces pieces;
  bool are_rows = false;
};

std::vector<Cut> cuts_of(ConvPass pass, const ConvProblem& problem, int num_threads) {
  std::vector<Cut> cuts;
  if (pass == ConvPass::Forward) {
    for (std::int64_t shift = 0; shift <= kMostShiftedRows; ++shift) {
      Pieces rows = pieces_of_rows(problem, num_threads, shift);
      if (!rows.empty()) cuts.push_back({std::move(rows), true});
    }
  }
  const std::int64_t samples = problem.data[0];
  cuts.push_back({pieces_of_batch(problem, std::min<std::int64_t>(num_threads, samples)), false});
  // Single samples are alike. Of weights' gradients each would be a sum of its own.
  if (pass != ConvPass::Weights && samples > num_threads && samples % num_threads != 0) {
    cuts.push_back({pieces_of_batch(problem, samples), false});
  }
  if (cuts.back().pieces.size() > 1) cuts.push_back({pieces_of_batch(problem, 1), false});
  return cuts;
}

}  // namespace

ConvSplit split_conv(ConvPass pass, const ConvProblem& problem, int num_threads) {
  const std::size_t weights = conv_weights_operand(pass);
  std::vector<Cut> cuts = cuts_of(pass, problem, num_threads);
  for (Cut& cut : cuts) {
    std::optional<Primitives> made = fast_primitives(pass, problem, cut.pieces);
    if (!made) continue;
    const memory::desc layout = made->front().wanted[weights];
    return {std::move(cut.pieces), *std::move(made), layout, cut.are_rows};
  }
  Cut& first = cuts.front();
  Primitives made =
      primitives_like(0, pass, problem, first.pieces, free_primitives(pass, problem, first.pieces));
  const memory::desc layout = made.front().wanted[weights];
  return {std::move(first.pieces), std::move(made), layout, first.are_rows};
}

}  // namespace pando::cpu
