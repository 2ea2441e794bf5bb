// Sets of input indices against std::set.
#include "pando/ir/input_set.hpp"

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <vector>

namespace pando {
namespace {

TEST(InputSet, HoldsWhatWasInsertedInAscendingOrder) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    std::minstd_rand random(seed + 1);
    const int bound = 1 + static_cast<int>(random() % 300);
    InputSet set;
    std::set<int> reference;
    for (unsigned n = random() % 40; n > 0; --n) {
      const int index = static_cast<int>(random()) % bound;
      set.insert(index);
      reference.insert(index);
    }
    EXPECT_EQ(std::vector<int>(set.begin(), set.end()),
              std::vector<int>(reference.begin(), reference.end()))
        << "seed " << seed;
    EXPECT_EQ(set.empty(), reference.empty());
    for (int index = -1; index < bound + 70; ++index) {
      EXPECT_EQ(set.contains(index), reference.contains(index)) << "seed " << seed;
    }
  }
}

TEST(InputSet, EqualSetsAreEqualWhateverTheOrder) {
  EXPECT_EQ((InputSet{3, 70, 0}), (InputSet{0, 3, 70}));
  EXPECT_NE((InputSet{3}), (InputSet{3, 64}));
  EXPECT_THROW(InputSet{-1}, InternalError);
}

}  // namespace
}  // namespace pando
