// Convolutions that threads share: no part is left to oneDNN's reference where the whole is not.
#include <gtest/gtest.h>

#include <numeric>
#include <random>
#include <string>

#include "pando/backends/cpu/onednn/conv_split.hpp"
#include "pando/base/error.hpp"

namespace pando::cpu {
namespace {

/// Square images and filters, padded so that sizes stay but for the stride.
ConvProblem problem_of(std::int64_t samples, std::int64_t channels, std::int64_t filters,
                       std::int64_t size, std::int64_t width, std::int64_t stride,
                       bool channel_last) {
  ConvProblem problem;
  const std::int64_t pad = width / 2, result = (size + 2 * pad - width) / stride + 1;
  problem.data = {samples, channels, size, size};
  problem.weights = {filters, channels, width, width};
  problem.result = {samples, filters, result, result};
  problem.channel_last = channel_last;
  problem.strides = {stride, stride};
  problem.pads = {pad, pad, pad, pad};
  problem.dilations = {1, 1};
  return problem;
}

std::int64_t elements_of_results(const ConvSplit& split) {
  return std::accumulate(split.pieces.begin(), split.pieces.end(), std::int64_t{0},
                         [](std::int64_t sum, const ConvPiece& piece) {
                           return sum + num_elements(piece.problem.result);
                         });
}

void check_split(ConvPass pass, const ConvProblem& problem, int num_threads) {
  const ConvSplit split = split_conv(pass, problem, num_threads);
  ASSERT_EQ(split.pieces.size(), split.primitives.size());
  EXPECT_EQ(elements_of_results(split), num_elements(problem.result));
  const bool is_slow_anyway = is_reference(describe_conv(pass, problem, problem));
  for (const ConvPrimitive& made : split.primitives) {
    EXPECT_TRUE(is_slow_anyway || !is_reference(made)) << made.desc.impl_info_str();
    EXPECT_EQ(made.wanted[conv_weights_operand(pass)], split.weights);
  }
}

constexpr ConvPass kPasses[] = {ConvPass::Forward, ConvPass::Data, ConvPass::Weights};

TEST(ConvSplit, UnevenRowsOfResNetAreNotLeftToTheReference) {
  for (const std::int64_t channels : {512, 1024}) {
    for (const int threads : {2, 3, 4}) {
      check_split(ConvPass::Forward, problem_of(1, channels, 2048, 7, 1, 1, true), threads);
    }
  }
}

TEST(ConvSplit, PartsOfRandomConvolutionsAreAsFastAsTheWhole) {
  constexpr unsigned kSeed = 20261126;
  SCOPED_TRACE(str_cat("seed ", kSeed));
  std::mt19937 random(kSeed);
  const auto one_of = [&](const std::vector<std::int64_t>& values) {
    return values[std::uniform_int_distribution<std::size_t>(0, values.size() - 1)(random)];
  };
  for (int i = 0; i < 300; ++i) {
    const ConvProblem problem =
        problem_of(one_of({1, 2, 3, 5, 7}), one_of({3, 16, 24, 64, 96, 160, 256, 512}),
                   one_of({16, 24, 32, 64, 112, 128, 320, 512, 1024}), one_of({5, 7, 9, 14, 28}),
                   one_of({1, 3, 5}), one_of({1, 2}), one_of({0, 1}) != 0);
    const auto threads = static_cast<int>(one_of({2, 3, 4, 8}));
    SCOPED_TRACE(str_cat("problem ", i, ": ", shape_text(problem.data), " ",
                         shape_text(problem.weights), " stride ", problem.strides[0],
                         problem.channel_last ? " channels last" : "", ", ", threads, " threads"));
    for (const ConvPass pass : kPasses) check_split(pass, problem, threads);
  }
}

}  // namespace
}  // namespace pando::cpu
