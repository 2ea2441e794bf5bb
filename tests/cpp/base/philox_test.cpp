#include "pando/base/philox.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace pando {
namespace {

// Known-answer vectors published with the Random123 library (kat_vectors, philox4x32 10).
TEST(Philox, MatchesPublishedVectors) {
  EXPECT_EQ(philox4x32_10({0, 0, 0, 0}, {0, 0}),
            (PhiloxCounter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  constexpr std::uint32_t ones = 0xffffffff;
  EXPECT_EQ(philox4x32_10({ones, ones, ones, ones}, {ones, ones}),
            (PhiloxCounter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(
      philox4x32_10({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
      (PhiloxCounter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, EveryWordOfABlockIsUsedOnce) {
  bool used[512][4] = {};
  for (std::uint32_t i = 0; i < 2048; ++i) {
    const PhiloxPosition at = philox_position(i);
    ASSERT_LT(at.counter, 512u);
    ASSERT_FALSE(used[at.counter][at.word]) << "element " << i;
    used[at.counter][at.word] = true;
  }
  EXPECT_EQ(philox_position(1024).counter, 256u);
  EXPECT_EQ(philox_position(1024).word, 0u);
  EXPECT_EQ(philox_position(257).counter, 1u);
  EXPECT_EQ(philox_position(257).word, 1u);
}

TEST(Philox, WordDependsOnKeyStreamAndIndex) {
  const std::uint32_t word = philox_word(7, 9, 5, 1);
  EXPECT_EQ(word, philox4x32_10({5, 0, 1, 0}, {7, 9})[0]);
  EXPECT_NE(word, philox_word(8, 9, 5, 1));
  EXPECT_NE(word, philox_word(7, 10, 5, 1));
  EXPECT_NE(word, philox_word(7, 9, 6, 1));
  EXPECT_NE(word, philox_word(7, 9, 5, 2));
}

TEST(Philox, UniformIsInUnitIntervalWithTheRightMoments) {
  EXPECT_EQ(philox_uniform(0), 0.0f);
  EXPECT_EQ(philox_uniform(0xffffffff), 1.0f - 0x1p-24f);
  double sum = 0.0, squares = 0.0;
  constexpr int n = 100000;
  for (std::uint32_t i = 0; i < n; ++i) {
    const double u = philox_uniform(philox_word(42, 1984, i, 3));
    sum += u;
    squares += u * u;
  }
  // Standard errors of the mean and of the second moment: 0.00091 and 0.00094.
  EXPECT_NEAR(sum / n, 0.5, 5 * 0.00092);
  EXPECT_NEAR(squares / n, 1.0 / 3.0, 5 * 0.00095);
}

}  // namespace
}  // namespace pando
