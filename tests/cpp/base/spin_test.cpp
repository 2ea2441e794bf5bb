#include "pando/base/spin.hpp"

#include <gtest/gtest.h>

namespace pando {
namespace {

#if defined(__linux__)
// Two threads that spin on one core wait for each other.
TEST(Spin, CountsTheCoresThatMayBeUsed) {
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  int core = 0;
  while (!CPU_ISSET(core, &before)) ++core;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(core, &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  EXPECT_EQ(usable_cores(), 1);
  EXPECT_GT(team_spins(1), 0);
  EXPECT_EQ(team_spins(2), 0);
  ASSERT_EQ(sched_setaffinity(0, sizeof before, &before), 0);
  EXPECT_EQ(usable_cores(), CPU_COUNT(&before));
}
#endif

}  // namespace
}  // namespace pando
