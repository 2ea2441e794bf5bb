// One call at a time: order, a wait that is given up, a call from within.
#include "pando/session/call_gate.hpp"

#include <gtest/gtest.h>

#include <future>

#include "pando/base/error.hpp"

namespace pando::testing {
namespace {

TEST(CallGate, OneThreadIsInside) {
  CallGate gate;
  int count = 0;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&] {
      for (int i = 0; i < 1000; ++i) {
        const CallGate::Pass pass(gate, [] {});
        ++count;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(count, 4000);
}

TEST(CallGate, AFreeGateIsPassedWithoutAQuestion) {
  CallGate gate;
  for (int i = 0; i < 2; ++i) {
    const CallGate::Pass pass(gate, [] { FAIL(); });
  }
}

TEST(CallGate, AWaitCanBeGivenUp) {
  CallGate gate;
  {
    const CallGate::Pass pass(gate, {});
    auto other = std::async(std::launch::async,
                            [&] { const CallGate::Pass never(gate, [] { throw Interrupted(); }); });
    EXPECT_THROW(other.get(), Interrupted);
  }
  const CallGate::Pass pass(gate, {});
}

TEST(CallGate, ACallFromWithinIsRefused) {
  CallGate gate;
  const auto call = [&] { const CallGate::Pass pass(gate, {}); };
  {
    const CallGate::Pass pass(gate, {});
    EXPECT_THROW(call(), Error);
    EXPECT_THROW(call(), Error);
  }
  call();
}

}  // namespace
}  // namespace pando::testing
