// Names like one that does not exist.
#include "pando/base/nearest_names.hpp"

#include <gtest/gtest.h>

namespace pando {
namespace {

TEST(NearestNames, NamesThatDifferLittleComeFirst) {
  const std::vector<std::string> known = {"fc0/weight", "fc0/bias", "fc1/weight", "head"};
  EXPECT_EQ(nearest_names("fc0/wieght", known), "the nearest names are 'fc0/weight', 'fc1/weight'");
  EXPECT_EQ(nearest_names("HEAD", known), "the nearest names are 'head'");
  EXPECT_EQ(nearest_names("had", known), "the nearest names are 'head'");
}

TEST(NearestNames, WithoutThoseAllOrTheirNumber) {
  EXPECT_EQ(nearest_names("loss", {}), "there are none");
  EXPECT_EQ(nearest_names("zzz", {"weight", "bias"}), "there are 'weight', 'bias'");
  EXPECT_EQ(nearest_names("", {"weight"}), "there are 'weight'");
  EXPECT_EQ(nearest_names("zzz", std::vector<std::string>(21, "weight")),
            "none of the 21 names is like it");
}

}  // namespace
}  // namespace pando
