// What goes wrong between ranks: clear errors on all of them, and nothing hangs.
#include <gtest/gtest.h>

#include <array>
#include <csignal>
#include <thread>

#include "pando/base/error.hpp"
#include "tests/cpp/worlds/worlds.hpp"

namespace pando::testing {
namespace {

using Kind = Collective::Kind;
constexpr double kShortTime = 0.05;

class CommunicatorFaults : public ::testing::TestWithParam<WorldKind> {};

INSTANTIATE_TEST_SUITE_P(Worlds, CommunicatorFaults, ::testing::ValuesIn(kWorldKinds),
                         [](const auto& kind) { return name_of(kind.param); });

/// Each rank failed, with an error that holds each of `parts`.
void expect_errors(const std::vector<Outcome>& outcomes, const std::vector<std::string>& parts) {
  for (std::size_t rank = 0; rank < outcomes.size(); ++rank) {
    for (const std::string& part : parts) {
      EXPECT_NE(outcomes[rank].error.find(part), std::string::npos)
          << "rank " << rank << ": " << outcomes[rank].error;
    }
  }
}

/// Memory of ranks that have failed may still be written by others: it lives in the test.
struct Memory {
  std::array<std::array<float, 64>, 4> values{};
  std::byte* of(int rank) {
    return reinterpret_cast<std::byte*>(values[static_cast<std::size_t>(rank)].data());
  }
};

Collective sum(std::int64_t elements, std::int64_t id, std::string_view name) {
  return {Kind::AllReduce, Reduction::Add, DType::Float32, elements, elements, id, name};
}

void wait_for_failure(Communicator& communicator) {
  while (true) {
    communicator.check();
    std::this_thread::yield();
  }
}

/// Rank 1 is at `other` while the rest are at `usual`.
std::vector<Outcome> run_mismatch(WorldKind kind, const Collective& usual,
                                  const Collective& other) {
  Memory memory;
  return run_ranks(kind, 3, kLongTime, [&](Communicator& communicator) {
    const int rank = communicator.rank();
    communicator.run(usual, memory.of(rank), memory.of(rank));
    communicator.run(rank == 1 ? other : usual, memory.of(rank), memory.of(rank));
    return std::string();
  });
}

TEST_P(CommunicatorFaults, AnotherCollective) {
  const auto outcomes =
      run_mismatch(GetParam(), sum(4, 0, "First 'op' (f.py:1)"), sum(4, 1, "Second 'op' (f.py:2)"));
  expect_errors(outcomes, {"First 'op' (f.py:1)", "Second 'op' (f.py:2)", "replica 1 is in",
                           "all replicas must execute the same collectives in the same order"});
}

TEST_P(CommunicatorFaults, AnotherSize) {
  const auto outcomes =
      run_mismatch(GetParam(), sum(4, 0, "Sum 'op' (f.py:1)"), sum(5, 0, "Sum 'op' (f.py:1)"));
  expect_errors(outcomes, {"Sum 'op' (f.py:1)", "4 elements to 4", "5 elements to 5"});
}

TEST_P(CommunicatorFaults, AnotherKindReductionOrDType) {
  Collective other = sum(4, 0, "a sum");
  other.kind = Kind::ReduceScatter;
  expect_errors(run_mismatch(GetParam(), sum(4, 0, "a sum"), other),
                {"all-reduce", "reduce-scatter"});
  other = sum(4, 0, "a sum");
  other.reduction = Reduction::Max;
  expect_errors(run_mismatch(GetParam(), sum(4, 0, "a sum"), other),
                {"reduction add", "reduction max"});
  other = sum(4, 0, "a sum");
  other.dtype = DType::Int32;
  expect_errors(run_mismatch(GetParam(), sum(4, 0, "a sum"), other), {"float32", "int32"});
}

TEST_P(CommunicatorFaults, AMessageOfAnotherSize) {
  Memory memory;
  const auto outcomes = run_ranks(GetParam(), 2, kLongTime, [&](Communicator& communicator) {
    if (communicator.rank() == 0) {
      communicator.send(1, 9, memory.of(0), 12);
      communicator.barrier();
    } else {
      communicator.receive(0, 9, memory.of(1), 16);
    }
    return std::string();
  });
  expect_errors(outcomes,
                {"replica 1 wanted 16 bytes from replica 0 with tag 9; replica 0 sent 12"});
}

TEST_P(CommunicatorFaults, AFailureEndsEveryWait) {
  Memory memory;
  const Collective usual = sum(4, 0, "a sum");
  using Wait = std::function<void(Communicator&, Communicator&, std::byte*)>;
  const std::vector<Wait> waits = {
      [&](auto& world, auto&, auto* bytes) { world.run(usual, bytes, bytes); },
      [&](auto& world, auto&, auto*) { world.barrier(); },
      [&](auto& world, auto&, auto* bytes) { world.receive(2, 0, bytes, 4); },
      [&](auto& world, auto&, auto*) { wait_for_failure(world); },
      [&](auto&, auto& others, auto* bytes) { others.receive(1 - others.rank(), 0, bytes, 4); },
      [&](auto& world, auto&, auto*) { world.split(0, 0); }};
  for (const Wait& wait : waits) {
    const auto outcomes = run_ranks(GetParam(), 3, kLongTime, [&](Communicator& world) {
      const int rank = world.rank();
      const auto others = world.split(rank == 2 ? 1 : 0, 0);
      world.barrier();
      if (rank == 2) throw RuntimeFault("out of luck");
      if (rank == 0) wait(world, *others, memory.of(rank));
      if (rank == 1) wait_for_failure(*others);
      return std::string();
    });
    EXPECT_EQ(outcomes[0].error, "replica 2 failed: out of luck");
    EXPECT_EQ(outcomes[1].error, "replica 2 failed: out of luck");
    EXPECT_NE(outcomes[2].error.find("out of luck"), std::string::npos);
  }
}

TEST_P(CommunicatorFaults, ARankThatHasEnded) {
  Memory memory;
  const Collective usual = sum(4, 0, "Sum 'op' (f.py:1)");
  const auto outcomes = run_ranks(GetParam(), 2, kLongTime, [&](Communicator& communicator) {
    const int rank = communicator.rank();
    communicator.run(usual, memory.of(rank), memory.of(rank));
    if (rank == 0) communicator.run(usual, memory.of(rank), memory.of(rank));
    return std::string();
  });
  EXPECT_NE(outcomes[0].error.find(
                "replica 0 waits for replica 1 in Sum 'op' (f.py:1), but replica 1 has ended its "
                "run: all replicas must execute the same collectives"),
            std::string::npos)
      << outcomes[0].error;
  EXPECT_EQ(outcomes[1].error, "");
}

TEST_P(CommunicatorFaults, ARankThatDoesNotCome) {
  Memory memory;
  const Collective usual = sum(4, 0, "Sum 'op' (f.py:1)");
  for (const bool receives : {false, true}) {
    const auto outcomes = run_ranks(GetParam(), 2, kShortTime, [&](Communicator& world) {
      if (world.rank() == 1) wait_for_failure(world);
      if (receives) world.receive(1, 3, memory.of(0), 4);
      world.run(usual, memory.of(0), memory.of(0));
      return std::string();
    });
    expect_errors(outcomes,
                  {str_cat("replica 0 waited 0.05 seconds for replica 1 in ",
                           receives ? "a receive from replica 1 with tag 3" : "Sum 'op' (f.py:1)",
                           ": it did not arrive")});
  }
}

/// Ranks 0 and 1 wait for each other on different communicators. Threads see the circle at once.
TEST_P(CommunicatorFaults, TwoCommunicatorsInDifferentOrder) {
  Memory memory;
  const Collective first = sum(4, 0, "First 'op' (f.py:1)");
  const Collective second = sum(4, 1, "Second 'op' (f.py:2)");
  const bool sees_circles = GetParam() == WorldKind::Threads;
  const double seconds = sees_circles ? kLongTime : kShortTime;
  const auto outcomes = run_ranks(GetParam(), 2, seconds, [&](Communicator& world) {
    const auto a = world.split(0, 0), b = world.split(0, 0);
    const int rank = world.rank();
    Communicator& own = rank == 0 ? *a : *b;
    own.run(rank == 0 ? first : second, memory.of(rank), memory.of(rank));
    return std::string();
  });
  if (sees_circles) {
    expect_errors(outcomes, {"First 'op' (f.py:1)", "Second 'op' (f.py:2)",
                             "all replicas must execute the same collectives in the same order"});
  } else {
    expect_errors(outcomes, {"it did not arrive"});
  }
}

TEST(ProcessFaults, ARankThatIsKilled) {
  Memory memory;
  const Collective usual = sum(4, 0, "Sum 'op' (f.py:1)");
  const auto outcomes =
      run_ranks(WorldKind::Processes, 3, kLongTime, [&](Communicator& communicator) {
        const int rank = communicator.rank();
        communicator.run(usual, memory.of(rank), memory.of(rank));
        if (rank == 1) ::raise(SIGKILL);
        communicator.run(usual, memory.of(rank), memory.of(rank));
        return std::string();
      });
  EXPECT_EQ(outcomes[1].error, str_cat("ended by signal ", SIGKILL));
  for (const int rank : {0, 2}) {
    const std::string& error = outcomes[static_cast<std::size_t>(rank)].error;
    EXPECT_NE(error.find("the process of replica 1 has died"), std::string::npos) << error;
    EXPECT_NE(error.find("Sum 'op' (f.py:1)"), std::string::npos) << error;
  }
}

TEST(ProcessFaults, ARankThatHangs) {
  Memory memory;
  const Collective usual = sum(4, 0, "Sum 'op' (f.py:1)");
  const auto outcomes =
      run_ranks(WorldKind::Processes, 2, kShortTime, [&](Communicator& communicator) {
        const int rank = communicator.rank();
        if (rank == 1) ::raise(SIGSTOP);
        communicator.run(usual, memory.of(rank), memory.of(rank));
        return std::string();
      });
  EXPECT_EQ(outcomes[1].error, "stopped");
  const std::string& error = outcomes[0].error;
  EXPECT_NE(error.find("seconds for replica 1 in Sum 'op' (f.py:1): it did not arrive"),
            std::string::npos)
      << error;
}

}  // namespace
}  // namespace pando::testing
