// Collectives between threads: values, order of many, and every way to fail without a hang.
#include "pando/runtime/thread_exchange.hpp"

#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <numeric>

#include "pando/base/error.hpp"
#include "pando/runtime/replica_team.hpp"

namespace pando {
namespace {

using Kind = CollectiveDesc::Kind;
using Values = std::vector<float>;
constexpr double kLongTime = 600.0;

CollectiveDesc collective(Kind kind, ReplicaGroups groups, std::int64_t input, std::int64_t output,
                          Reduction reduction = Reduction::Add) {
  return {kind, reduction, DType::Float32, input, output, groups, "Test 'op' (file.py:1)"};
}

std::byte* bytes_of(Values& values) { return reinterpret_cast<std::byte*>(values.data()); }

Values run(Communicator& communicator, const CollectiveDesc& desc, Values input) {
  Values output(static_cast<std::size_t>(desc.output_elements), -1.0f);
  communicator.run(desc, bytes_of(input), bytes_of(output));
  return output;
}

std::string error_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const RuntimeFault& fault) {
    return fault.what();
  }
  return "no error";
}

Values range(std::int64_t count, float start) {
  Values values(static_cast<std::size_t>(count));
  std::iota(values.begin(), values.end(), start);
  return values;
}

TEST(ThreadExchange, AllReduceOfEveryGrouping) {
  constexpr std::int64_t kCount = 70;  // several cache lines, not whole ones
  for (const auto& [stride, size] : {std::pair{1, 4}, {1, 2}, {2, 2}}) {
    const CollectiveDesc desc = collective(Kind::AllReduce, {stride, size}, kCount, kCount);
    ReplicaTeam team(4, kLongTime, {});
    team.run([&](int replica) {
      const Values result = run(team.communicator(replica), desc,
                                range(kCount, 100.0f * static_cast<float>(replica)));
      for (std::int64_t i = 0; i < kCount; ++i) {
        float wanted = 0.0f;
        for (std::int64_t m = 0; m < desc.groups.size; ++m) {
          wanted += static_cast<float>(100 * desc.groups.member(replica, m) + i);
        }
        ASSERT_EQ(result[static_cast<std::size_t>(i)], wanted);
      }
    });
  }
}

TEST(ThreadExchange, AllReduceInPlace) {
  const CollectiveDesc desc = collective(Kind::AllReduce, {1, 3}, 5000, 5000);
  ReplicaTeam team(3, kLongTime, {});
  team.run([&](int replica) {
    Values values = range(5000, static_cast<float>(replica));
    team.communicator(replica).run(desc, bytes_of(values), bytes_of(values));
    for (int i = 0; i < 5000; ++i) {
      ASSERT_EQ(values[static_cast<std::size_t>(i)], static_cast<float>(3 * i + 3));
    }
  });
}

TEST(ThreadExchange, ScatterPadsAndGatherCuts) {
  const CollectiveDesc scatter = collective(Kind::ReduceScatter, {1, 4}, 5, 2);
  const CollectiveDesc local = collective(Kind::ReduceScatter, {1, 4}, 5, 2, Reduction::Local);
  const CollectiveDesc gather = collective(Kind::AllGather, {1, 4}, 2, 5, Reduction::Local);
  ReplicaTeam team(4, kLongTime, {});
  team.run([&](int replica) {
    Communicator& communicator = team.communicator(replica);
    const Values part = run(communicator, scatter, {1, 2, 3, 4, 5});
    const std::vector<Values> wanted = {{4, 8}, {12, 16}, {20, 0}, {0, 0}};
    ASSERT_EQ(part, wanted[static_cast<std::size_t>(replica)]);
    ASSERT_EQ(run(communicator, gather, part), (Values{4, 8, 12, 16, 20}));
    const std::vector<Values> own = {{1, 2}, {3, 4}, {5, 0}, {0, 0}};
    ASSERT_EQ(run(communicator, local, {1, 2, 3, 4, 5}), own[static_cast<std::size_t>(replica)]);
  });
}

TEST(ThreadExchange, ManyInARowWithChangingGroups) {
  const std::vector<CollectiveDesc> all = {collective(Kind::AllReduce, {1, 2}, 3, 3),
                                           collective(Kind::AllReduce, {2, 2}, 3, 3),
                                           collective(Kind::AllReduce, {1, 4}, 3, 3)};
  ReplicaTeam team(4, kLongTime, {});
  for (int repetition = 0; repetition < 3; ++repetition) {
    team.run([&](int replica) {
      for (int i = 0; i < 200; ++i) {
        const auto own = static_cast<float>(replica + i);
        const std::vector<float> wanted = {
            static_cast<float>((replica & ~1) + (replica | 1) + 2 * i),
            static_cast<float>((replica & ~2) + (replica | 2) + 2 * i),
            static_cast<float>(6 + 4 * i)};
        for (std::size_t k = 0; k < all.size(); ++k) {
          ASSERT_EQ(run(team.communicator(replica), all[k], Values(3, own)), Values(3, wanted[k]));
        }
      }
    });
  }
}

TEST(ThreadExchange, EmptyTensors) {
  const CollectiveDesc reduce = collective(Kind::AllReduce, {1, 2}, 0, 0);
  const CollectiveDesc scatter = collective(Kind::ReduceScatter, {1, 2}, 0, 0);
  ReplicaTeam team(2, kLongTime, {});
  team.run([&](int replica) {
    EXPECT_TRUE(run(team.communicator(replica), reduce, {}).empty());
    EXPECT_TRUE(run(team.communicator(replica), scatter, {}).empty());
  });
}

TEST(ThreadExchange, FailureStopsTheOthers) {
  const CollectiveDesc desc = collective(Kind::AllReduce, {1, 4}, 2, 2);
  ReplicaTeam team(4, kLongTime, {});
  for (int failing = 0; failing < 4; ++failing) {
    const std::string error = error_of([&] {
      team.run([&](int replica) {
        run(team.communicator(replica), desc, {1, 2});
        if (replica == failing) throw RuntimeFault("a fault");
        run(team.communicator(replica), desc, {1, 2});
      });
    });
    EXPECT_EQ(error, str_cat("replica ", failing, ": a fault"));
  }
  team.run([&](int replica) {
    EXPECT_EQ(run(team.communicator(replica), desc, {1, 2}), (Values{4, 8}));
  });
}

TEST(ThreadExchange, FailureStopsAReplicaThatPolls) {
  ReplicaTeam team(2, kLongTime, {});
  const std::string error = error_of([&] {
    team.run([&](int replica) {
      if (replica == 1) throw RuntimeFault("a fault");
      const auto should_stop = team.should_stop(replica);
      while (!should_stop()) std::this_thread::yield();
    });
  });
  EXPECT_EQ(error, "replica 1: a fault");
}

TEST(ThreadExchange, OtherErrorsKeepTheirType) {
  ReplicaTeam team(2, kLongTime, {});
  EXPECT_THROW(team.run([&](int replica) {
    if (replica == 1) throw OutOfMemory("full", "summary");
  }),
               OutOfMemory);
  EXPECT_THROW(team.run([&](int replica) {
    if (replica == 1) throw std::bad_alloc();
  }),
               std::bad_alloc);
}

TEST(ThreadExchange, DifferentCollectives) {
  const CollectiveDesc first = collective(Kind::AllReduce, {1, 2}, 2, 2);
  CollectiveDesc second = first;
  second.name = "Other 'op' (file.py:2)";
  ReplicaTeam team(2, kLongTime, {});
  const std::string error = error_of([&] {
    team.run([&](int replica) {
      run(team.communicator(replica), replica == 0 ? first : second, {1, 2});
    });
  });
  EXPECT_NE(error.find("is in Test 'op' (file.py:1)"), std::string::npos) << error;
  EXPECT_NE(error.find("is in Other 'op' (file.py:2)"), std::string::npos) << error;
}

/// Replica 1 and 3 go on to the next collective while replica 0 and 2 are at another one.
TEST(ThreadExchange, DifferentCollectivesOfDifferentGroups) {
  const CollectiveDesc pairs = collective(Kind::AllReduce, {1, 2}, 2, 2);
  const CollectiveDesc strided = collective(Kind::AllReduce, {2, 2}, 2, 2);
  // As an engine's memory, these outlive a replica that has failed: others may still write there.
  std::array<Values, 4> inputs, outputs;
  inputs.fill({1, 2});
  outputs.fill({0, 0});
  ReplicaTeam team(4, kLongTime, {});
  const std::string error = error_of([&] {
    team.run([&](int replica) {
      const auto own = static_cast<std::size_t>(replica);
      for (int i = 0; i < 3; ++i) {
        team.communicator(replica).run(replica % 2 == 0 ? pairs : strided, bytes_of(inputs[own]),
                                       bytes_of(outputs[own]));
      }
    });
  });
  EXPECT_NE(error.find("replica "), std::string::npos) << error;
}

TEST(ThreadExchange, AReplicaThatEndsEarly) {
  const CollectiveDesc desc = collective(Kind::AllReduce, {1, 2}, 2, 2);
  ReplicaTeam team(2, kLongTime, {});
  const std::string error = error_of([&] {
    team.run([&](int replica) {
      run(team.communicator(replica), desc, {1, 2});
      if (replica == 0) run(team.communicator(replica), desc, {1, 2});
    });
  });
  EXPECT_EQ(error,
            "replica 0 waits for replica 1 in Test 'op' (file.py:1), but replica 1 has ended its "
            "run: all replicas must execute the same collectives");
}

TEST(ThreadExchange, AReplicaThatDoesNotArrive) {
  const CollectiveDesc desc = collective(Kind::AllReduce, {1, 2}, 2, 2);
  ReplicaTeam team(2, 0.01, {});
  const std::string error = error_of([&] {
    team.run([&](int replica) {
      if (replica == 0) {
        run(team.communicator(replica), desc, {1, 2});
        return;
      }
      const auto should_stop = team.should_stop(replica);
      while (!should_stop()) std::this_thread::yield();
    });
  });
  EXPECT_EQ(error,
            "replica 0 waited 0.01 seconds for replica 1 in Test 'op' (file.py:1): it did not "
            "arrive");
}

TEST(ThreadExchange, AnInterruptEndsEveryWait) {
  const CollectiveDesc desc = collective(Kind::AllReduce, {1, 2}, 2, 2);
  for (int waiting : {0, 1}) {
    std::atomic<bool> interrupt{false};
    ReplicaTeam team(2, kLongTime, [&] { return interrupt.load(); });
    const auto work = [&](int replica) {
      if (replica == waiting) {
        interrupt = true;
        run(team.communicator(replica), desc, {1, 2});
        return;
      }
      const auto should_stop = team.should_stop(replica);
      while (!should_stop()) std::this_thread::yield();
      throw Interrupted();
    };
    EXPECT_THROW(team.run(work), Interrupted);
  }
}

TEST(ThreadExchange, AnInterruptEndsTheWaitForTheOthers) {
  std::atomic<bool> interrupt{false};
  ReplicaTeam team(2, kLongTime, [&] { return interrupt.load(); });
  const auto work = [&](int replica) {
    if (replica == 0) return;
    interrupt = true;
    const auto should_stop = team.should_stop(replica);
    while (!should_stop()) std::this_thread::yield();
  };
  EXPECT_THROW(team.run(work), Interrupted);
}

}  // namespace
}  // namespace pando
