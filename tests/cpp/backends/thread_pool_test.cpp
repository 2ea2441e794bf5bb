#include "pando/backends/cpu/thread_pool.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <numeric>
#include <stdexcept>
#include <thread>

#include "pando/backends/cpu/parallel.hpp"

namespace pando::cpu {
namespace {

TEST(ThreadPool, RunsEveryItemOnceInPartsOfItsOwn) {
  for (const int threads : {1, 2, 3, 7}) {
    for (const std::int64_t count : {0, 1, 2, 5, 1000}) {
      std::vector<int> seen(static_cast<std::size_t>(count));
      std::array<std::int64_t, 7> part_ends{};
      parallel_for(threads, count, 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) ++seen[static_cast<std::size_t>(i)];
        part_ends[static_cast<std::size_t>(thread_index())] = end;
      });
      for (const int times : seen) EXPECT_EQ(times, 1);
      if (count >= threads) {
        for (int part = 0; part < threads; ++part) {
          EXPECT_EQ(part_ends[static_cast<std::size_t>(part)], count * (part + 1) / threads);
        }
      }
    }
  }
}

TEST(ThreadPool, ManySmallJobsOneAfterTheOther) {
  std::array<std::int64_t, 4> sums{};
  constexpr std::int64_t kJobs = 20000;
  for (std::int64_t job = 0; job < kJobs; ++job) {
    parallel_for(4, 4, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) sums[static_cast<std::size_t>(i)] += job;
    });
  }
  for (const std::int64_t sum : sums) EXPECT_EQ(sum, kJobs * (kJobs - 1) / 2);
}

TEST(ThreadPool, SeveralCallersAtOnceHaveThreadsOfTheirOwn) {
  std::vector<std::thread> callers;
  std::array<double, 3> sums{};
  for (std::size_t caller = 0; caller < sums.size(); ++caller) {
    callers.emplace_back([&, caller] {
      for (int job = 0; job < 500; ++job) {
        std::array<double, 3> parts{};
        parallel_for(3, 300, 1, [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t i = begin; i < end; ++i) {
            parts[static_cast<std::size_t>(thread_index())] += double(i);
          }
        });
        sums[caller] += std::accumulate(parts.begin(), parts.end(), 0.0);
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  for (const double sum : sums) EXPECT_EQ(sum, 500.0 * 299 * 300 / 2);
}

TEST(ThreadPool, RethrowsAndGoesOn) {
  const auto fail_at = [](std::int64_t bad) {
    parallel_for(4, 4, 1, [&](std::int64_t begin, std::int64_t end) {
      if (begin <= bad && bad < end) throw std::runtime_error("part failed");
    });
  };
  for (std::int64_t bad = 0; bad < 4; ++bad) EXPECT_THROW(fail_at(bad), std::runtime_error);
  EXPECT_NO_THROW(fail_at(4));
}

TEST(ThreadPool, LoopsWithinAPartRunInIt) {
  std::array<std::int64_t, 2> sums{};
  parallel_for(2, 2, 1, [&](std::int64_t outer, std::int64_t) {
    parallel_for(8, 100, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) sums[static_cast<std::size_t>(outer)] += i;
    });
    EXPECT_EQ(thread_index(), outer);
  });
  EXPECT_EQ(sums[0], 4950);
  EXPECT_EQ(sums[1], 4950);
}

TEST(ThreadPool, PartsHaveTheFloatingPointStateOfTheCaller) {
  std::array<float, 3> halves{};
  const auto halve_denormal = [&] {
    parallel_for(3, 3, 1, [&](std::int64_t begin, std::int64_t) {
      const volatile float small = 4e-39F;
      halves[static_cast<std::size_t>(begin)] = small * 0.5F;
    });
  };
  {
    const FlushDenormals flush;
    halve_denormal();
  }
  for (const float half : halves) EXPECT_EQ(half, 0.0F);
  halve_denormal();
  for (const float half : halves) EXPECT_NE(half, 0.0F);
}

TEST(ThreadPool, AForkedChildMakesItsOwnThreads) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the thread sanitizer ends a forked child that starts threads";
#endif
  const auto sum = [] {
    std::array<std::int64_t, 4> parts{};
    parallel_for(4, 100, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        parts[static_cast<std::size_t>(thread_index())] += i;
      }
    });
    return std::accumulate(parts.begin(), parts.end(), std::int64_t{0});
  };
  // Not while they start: a sanitizer's allocator keeps its locks over a fork.
  std::atomic<int> started = 0;
  parallel_for(4, 4, 1, [&](std::int64_t, std::int64_t) {
    for (++started; started.load() < 4;) std::this_thread::yield();
  });
  // Again and again, to meet the threads awake, asleep, and with the lock between the two.
  for (int round = 0; round < 50; ++round) {
    ASSERT_EQ(sum(), 4950);
    for (int i = 0; i < round * 100; ++i) std::this_thread::yield();
    const pid_t child = fork();
    if (child == 0) {
      alarm(60);  // a child that hangs is a failure, not a wait
      _exit(sum() == 4950 ? 7 : 1);
    }
    int status = 0;
    waitpid(child, &status, 0);
    ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 7) << "round " << round;
  }
}

}  // namespace
}  // namespace pando::cpu
