#include "pando/backends/cpu/onednn/conv_pieces.hpp"

#include <algorithm>
#include <optional>

namespace pando::cpu {

std::vector<ConvPiece> pieces_of_batch(const ConvProblem& problem, std::int64_t count) {
  const std::int64_t samples = problem.data[0];
  std::vector<ConvPiece> pieces;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t first = samples * i / count;
    ConvPiece& piece = pieces.emplace_back();
    piece.problem = problem;
    piece.problem.data[0] = piece.problem.result[0] = samples * (i + 1) / count - first;
    piece.first_data = first * (num_elements(problem.data) / samples);
    piece.first_result = first * (num_elements(problem.result) / samples);
  }
  return pieces;
}

namespace {

/// Rows [begin, end) of the result of one sample; nothing if they see padding only.
std::optional<ConvPiece> piece_of_rows(const ConvProblem& problem, std::int64_t sample,
                                       std::int64_t begin, std::int64_t end) {
  constexpr std::size_t kRows = 2;
  const std::size_t rank = problem.spatial_rank();
  const std::int64_t rows = problem.data[kRows];
  const std::int64_t extent = (problem.weights[kRows] - 1) * problem.dilations[0] + 1;
  const std::int64_t first = begin * problem.strides[0] - problem.pads[0];
  const std::int64_t last = (end - 1) * problem.strides[0] - problem.pads[0] + extent;
  const std::int64_t seen = std::max<std::int64_t>(first, 0), seen_end = std::min(last, rows);
  if (seen >= seen_end) return std::nullopt;
  ConvPiece piece{problem};
  piece.problem.data[0] = piece.problem.result[0] = 1;
  piece.problem.data[kRows] = seen_end - seen;
  piece.problem.result[kRows] = end - begin;
  piece.problem.pads[0] = seen - first;
  piece.problem.pads[rank] = last - seen_end;
  const auto elements_before = [&](const Shape& image, std::int64_t row) {
    const std::int64_t channels = problem.channel_last ? image[1] : 1;
    const Shape inner(image.begin() + kRows + 1, image.end());
    return sample * num_elements(Shape(image.begin() + 1, image.end())) +
           row * num_elements(inner) * channels;
  };
  piece.first_data = elements_before(problem.data, seen);
  piece.first_result = elements_before(problem.result, begin);
  return piece;
}

/// Multiplications below which another thread costs more than it saves.
constexpr std::int64_t kLeastPartWork = std::int64_t{1} << 18;

}  // namespace

std::vector<ConvPiece> pieces_of_rows(const ConvProblem& problem, int num_threads,
                                      std::int64_t shift) {
  const std::int64_t samples = problem.data[0], rows = problem.result[2];
  const std::int64_t work =
      num_elements(problem.result) / problem.result[1] * num_elements(problem.weights);
  const std::int64_t count = std::min(
      {num_threads / samples, rows, std::max<std::int64_t>(1, work / samples / kLeastPartWork)});
  const auto cut = [&](std::int64_t part) {
    return part == 0 || part == count ? rows * part / count : rows * part / count + shift;
  };
  std::vector<ConvPiece> pieces;
  if (count < 2 || cut(count - 1) >= rows) return pieces;
  for (std::int64_t i = 0; i < samples * count; ++i) {
    const std::int64_t part = i % count;
    const auto piece = piece_of_rows(problem, i / count, cut(part), cut(part + 1));
    if (!piece) return {};
    pieces.push_back(*piece);
  }
  return pieces;
}

}  // namespace pando::cpu
