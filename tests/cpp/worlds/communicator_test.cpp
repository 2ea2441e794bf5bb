// What every communicator must do, on ranks that are threads, processes, or both.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <numeric>
#include <random>

#include "pando/base/error.hpp"
#include "tests/cpp/worlds/plain_collectives.hpp"
#include "tests/cpp/worlds/worlds.hpp"

namespace pando::testing {
namespace {

using Kind = Collective::Kind;
using Bytes = std::vector<std::byte>;

class Communicators : public ::testing::TestWithParam<WorldKind> {};

INSTANTIATE_TEST_SUITE_P(Worlds, Communicators, ::testing::ValuesIn(kWorldKinds),
                         [](const auto& kind) { return name_of(kind.param); });

/// Every rank returned nothing: it found no fault.
void expect_well(const std::vector<Outcome>& outcomes) {
  for (std::size_t rank = 0; rank < outcomes.size(); ++rank) {
    EXPECT_EQ(outcomes[rank].error, "") << "rank " << rank;
    EXPECT_EQ(outcomes[rank].value, "") << "rank " << rank;
  }
}

/// Small numbers, the same for everyone who asks.
Numbers numbers_of(std::uint64_t seed, int rank, std::int64_t count, double step = 12) {
  std::mt19937_64 random(seed * 1000 + static_cast<std::uint64_t>(rank));
  Numbers numbers(static_cast<std::size_t>(count));
  for (double& number : numbers) number = step * static_cast<double>(random() % 4);
  return numbers;
}

std::string text_of(const Numbers& numbers) {
  std::string text;
  for (const double number : numbers) text += str_cat(" ", number);
  return text;
}

/// Each rank gives numbers_of(seed, rank); says what is wrong with what this one gets.
std::string check_values(Communicator& communicator, const Collective& collective,
                         std::uint64_t seed, bool in_place) {
  const double step = collective.reduction == Reduction::Mul ? 1 : 12;
  std::vector<Numbers> inputs;
  for (int rank = 0; rank < communicator.size(); ++rank) {
    inputs.push_back(numbers_of(seed, rank, collective.input_elements, step));
  }
  const int rank = communicator.rank();
  Bytes input = encode(inputs[static_cast<std::size_t>(rank)], collective.dtype);
  Bytes output(static_cast<std::size_t>(collective.output_elements) *
               dtype_bytes(collective.dtype));
  communicator.run(collective, input.data(), in_place ? input.data() : output.data());
  const Numbers given = decode(in_place ? input : output, collective.dtype);
  const Numbers wanted = plain_collective(collective, rank, inputs);
  if (given == wanted) return {};
  return str_cat(collective.name, " of ", communicator.size(), ":", text_of(given), "; wanted",
                 text_of(wanted));
}

constexpr Reduction kReductions[] = {Reduction::Add, Reduction::Mean,     Reduction::Mul,
                                     Reduction::Min, Reduction::Max,      Reduction::And,
                                     Reduction::Or,  Reduction::SquareAdd};
constexpr DType kReducedDTypes[] = {DType::Float32, DType::Float16, DType::Int32, DType::UInt32};

/// All reductions of `count` elements that there are.
std::string check_reductions(Communicator& communicator, std::int64_t count) {
  const std::int64_t part = (count + communicator.size() - 1) / communicator.size();
  std::string text;
  std::uint64_t seed = 0;
  for (const DType dtype : kReducedDTypes) {
    for (const Reduction reduction : kReductions) {
      const std::string name = str_cat(reduction_word(reduction), " of ", dtype_name(dtype));
      const Collective all{Kind::AllReduce, reduction, dtype, count, count, 1, name};
      const Collective scatter{Kind::ReduceScatter, reduction, dtype, count, part, 2, name};
      text += check_values(communicator, all, ++seed, false);
      text += check_values(communicator, all, ++seed, true);
      text += check_values(communicator, scatter, ++seed, false);
    }
    const Collective cut{Kind::ReduceScatter, Reduction::Local, dtype, count, part, 3, "a cut"};
    const Collective gather{Kind::AllGather, Reduction::Local, dtype, part, count, 4,
                            "a gathering"};
    text += check_values(communicator, cut, ++seed, false);
    text += check_values(communicator, gather, ++seed, false);
  }
  return text;
}

TEST_P(Communicators, GiveWhatPlainLoopsGive) {
  for (const int size : {1, 2, 3, 4}) {
    for (const std::int64_t count : {0, 1, 5, 70, 5000}) {
      expect_well(run_ranks(GetParam(), size, kLongTime, [&](Communicator& communicator) {
        return check_reductions(communicator, count);
      }));
    }
  }
}

TEST_P(Communicators, GatherEveryDType) {
  for (std::size_t i = 0; i < kDTypeTraits.size(); ++i) {
    const auto dtype = static_cast<DType>(i);
    const std::size_t bytes = dtype_bytes(dtype);
    const Collective gather{Kind::AllGather, Reduction::Local, dtype, 3, 8, 0, "a gathering"};
    expect_well(run_ranks(GetParam(), 3, kLongTime, [&](Communicator& communicator) {
      Bytes all(9 * bytes), output(8 * bytes);
      for (std::size_t k = 0; k < all.size(); ++k) all[k] = static_cast<std::byte>(k + 1);
      const std::size_t own = static_cast<std::size_t>(communicator.rank()) * 3 * bytes;
      communicator.run(gather, all.data() + own, output.data());
      all.resize(output.size());
      return output == all ? std::string() : str_cat("wrong bytes of ", dtype_name(dtype));
    }));
  }
}

/// The order matters for the bits of these.
TEST_P(Communicators, ReduceInTheOrderOfRanks) {
  constexpr std::int64_t kCount = 3000;
  const auto values_of = [](int rank) {
    std::mt19937_64 random(static_cast<std::uint64_t>(rank) + 1);
    std::lognormal_distribution<float> values(0.0f, 5.0f);
    std::vector<float> result(kCount);
    for (float& value : result) value = values(random) * (random() % 2 == 0 ? 1.0f : -1.0f);
    return result;
  };
  const Collective sum{Kind::AllReduce, Reduction::Add, DType::Float32, kCount, kCount, 0, "a sum"};
  expect_well(run_ranks(GetParam(), 4, kLongTime, [&](Communicator& communicator) {
    std::vector<float> own = values_of(communicator.rank()), wanted = values_of(0);
    for (int rank = 1; rank < 4; ++rank) {
      const std::vector<float> next = values_of(rank);
      for (std::size_t i = 0; i < wanted.size(); ++i) wanted[i] += next[i];
    }
    auto* bytes = reinterpret_cast<std::byte*>(own.data());
    communicator.run(sum, bytes, bytes);
    const auto has_bits = [](float a, float b) {
      return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
    };
    const bool same = std::equal(own.begin(), own.end(), wanted.begin(), has_bits);
    return same ? std::string() : "other bits";
  }));
}

TEST_P(Communicators, ABarrierWaitsForAll) {
  constexpr int kRounds = 50;
  void* memory = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  auto& come = *new (memory) std::atomic<int>(0);
  expect_well(run_ranks(GetParam(), 3, kLongTime, [&](Communicator& communicator) {
    for (int round = 1; round <= kRounds; ++round) {
      ++come;
      communicator.barrier();
      if (come != 3 * round) return str_cat("round ", round, ": ", come.load(), " have come");
      communicator.barrier();
    }
    return std::string();
  }));
  ::munmap(memory, 4096);
}

std::string sum_of_ranks(Communicator& communicator, int world_rank, double wanted) {
  const Collective sum{Kind::AllReduce, Reduction::Add, DType::Float32, 1, 1, 0, "a sum"};
  auto value = static_cast<float>(world_rank);
  auto* bytes = reinterpret_cast<std::byte*>(&value);
  communicator.run(sum, bytes, bytes);
  return value == static_cast<float>(wanted) ? "" : str_cat("sum ", value, ", wanted ", wanted);
}

TEST_P(Communicators, SplitsHaveTheirOwnRanks) {
  expect_well(run_ranks(GetParam(), 5, kLongTime, [&](Communicator& world) {
    const int rank = world.rank();
    // {0, 2, 4} backwards and {1, 3}.
    const auto parity = world.split(rank % 2, -rank);
    std::string text = sum_of_ranks(*parity, rank, rank % 2 == 0 ? 6 : 4);
    const int place = rank % 2 == 0 ? (4 - rank) / 2 : (3 - rank) / 2;
    if (parity->rank() != place) text += str_cat("rank ", parity->rank(), " of the parity");
    if (parity->size() != (rank % 2 == 0 ? 3 : 2)) text += "wrong size of the parity";
    // {4, 2}, {0}, {3, 1}
    const auto pair = parity->split(parity->rank() / 2, 0);
    text += sum_of_ranks(*pair, rank, rank == 0 ? 0 : rank % 2 == 0 ? 6 : 4);
    if (pair->size() != (rank == 0 ? 1 : 2)) text += "wrong size of the pair";
    // The others still work, in any order on each.
    text += sum_of_ranks(world, rank, 10);
    text += sum_of_ranks(*parity, rank, rank % 2 == 0 ? 6 : 4);
    const auto all = world.split(-7, 0);
    text += sum_of_ranks(*all, rank, 10);
    return text;
  }));
}

/// Several collectives under way; each rank waits for them in an order of its own.
TEST_P(Communicators, StartedCollectivesMayBeWaitedForInAnyOrder) {
  constexpr int kUnderWay = 12;
  std::vector<Collective> sums;
  for (int i = 0; i < kUnderWay; ++i) {
    sums.push_back({Kind::AllReduce, Reduction::Add, DType::Float32, i, i, i, "a sum"});
  }
  expect_well(run_ranks(GetParam(), 3, kLongTime, [&](Communicator& communicator) {
    std::mt19937_64 random(static_cast<std::uint64_t>(communicator.rank()));
    for (int round = 0; round < 20; ++round) {
      std::vector<std::vector<float>> values;
      std::vector<Communicator::Ticket> tickets;
      for (int i = 0; i < kUnderWay; ++i) {
        auto& own = values.emplace_back(i, static_cast<float>(communicator.rank() + i));
        auto* bytes = reinterpret_cast<std::byte*>(own.data());
        tickets.push_back(communicator.start(sums[static_cast<std::size_t>(i)], bytes, bytes));
      }
      std::vector<std::size_t> order(kUnderWay);
      std::iota(order.begin(), order.end(), 0);
      std::shuffle(order.begin(), order.end(), random);
      for (const std::size_t i : order) {
        communicator.wait(tickets[i]);
        const std::vector<float> wanted(i, static_cast<float>(3 + 3 * i));
        if (values[i] != wanted) return str_cat("wrong sum ", i, " in round ", round);
      }
    }
    return std::string();
  }));
}

/// Rank 1 does not wait for the collective before rank 0, done with it, sends a message.
TEST_P(Communicators, WhatIsUnderWayGoesOnInOtherWaits) {
  const Collective sum{Kind::AllReduce, Reduction::Add, DType::Float32, 1, 1, 0, "a sum"};
  expect_well(run_ranks(GetParam(), 2, kLongTime, [&](Communicator& world) {
    const auto other = world.split(0, 0);
    float a = 1, b = 2, c = 0;
    const auto bytes = [](float& value) { return reinterpret_cast<std::byte*>(&value); };
    const auto first = world.start(sum, bytes(a), bytes(a));
    const auto second = other->start(sum, bytes(b), bytes(b));
    if (world.rank() == 0) {
      other->wait(second);
      world.wait(first);
      world.send(1, 5, bytes(a), sizeof a);
      world.barrier();
    } else {
      world.receive(0, 5, bytes(c), sizeof c);
      world.wait(first);
      world.barrier();
      other->wait(second);
    }
    const bool good = a == 2 && b == 4 && (world.rank() == 0 || c == 2);
    return good ? std::string() : str_cat(a, " ", b, " ", c);
  }));
}

TEST_P(Communicators, MessagesArriveInOrderByTag) {
  constexpr int kMessages = 20;
  constexpr std::size_t kLarge = 1 << 20;
  expect_well(run_ranks(GetParam(), 3, kLongTime, [&](Communicator& communicator) {
    const int rank = communicator.rank(), next = (rank + 1) % 3, before = (rank + 2) % 3;
    const auto send_all = [&] {
      for (int i = 0; i < kMessages; ++i) {
        const int value = 100 * rank + i;
        communicator.send(next, i % 2, reinterpret_cast<const std::byte*>(&value), sizeof value);
      }
      const Bytes large(kLarge, static_cast<std::byte>(rank));
      communicator.send(next, 7, large.data(), large.size());
      communicator.send(next, 8, nullptr, 0);
    };
    // A send may wait for its receiver: one must receive first.
    if (rank != 0) send_all();
    std::string text;
    Bytes large(kLarge);
    communicator.receive(before, 8, nullptr, 0);
    communicator.receive(before, 7, large.data(), large.size());
    if (large != Bytes(kLarge, static_cast<std::byte>(before))) text += "wrong large message";
    for (const int tag : {1, 0}) {
      for (int i = tag; i < kMessages; i += 2) {
        int value = -1;
        communicator.receive(before, tag, reinterpret_cast<std::byte*>(&value), sizeof value);
        if (value != 100 * before + i) text += str_cat(" ", value, " for ", i);
      }
    }
    if (rank == 0) send_all();
    return text;
  }));
}

/// A run that failed leaves nothing behind for the next: no message, no collective, no count.
TEST_P(Communicators, ARunBeginsAnew) {
  const auto work = [&](Communicator& world, int run) {
    const int value = 40 + run;
    int got = 0;
    const auto* sent = reinterpret_cast<const std::byte*>(&value);
    if (run == 0) {
      if (world.rank() == 0) world.send(1, 3, sent, sizeof value);
      if (world.rank() == 2) throw RuntimeFault("on purpose");
      world.barrier();
    }
    const auto pairs = world.split(world.rank() / 2, 0);
    if (world.rank() == 0) world.send(1, 3, sent, sizeof value);
    if (world.rank() == 1) {
      world.receive(0, 3, reinterpret_cast<std::byte*>(&got), sizeof got);
      if (got != value) return str_cat("message ", got);
    }
    return sum_of_ranks(*pairs, world.rank(), world.rank() < 2 ? 1 : 2);
  };
  expect_well(run_ranks(GetParam(), 3, kLongTime, 3, work));
}

}  // namespace
}  // namespace pando::testing
