// Instruction streams of several devices: every conflict is ordered, signals match waits.
#include "pando/compile/device_streams.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

namespace pando {
namespace {

using Steps = std::vector<StreamStep>;
using Kind = StreamStep::Kind;
constexpr AccessSpace kFrame{AccessSpace::Kind::Frame};

struct TestInstruction {
  std::vector<std::int32_t> devices;
  std::vector<Access> accesses;
};

std::vector<Steps> streams_of(const std::vector<std::int32_t>& devices,
                              const std::vector<TestInstruction>& instructions) {
  DeviceStreams streams(devices);
  for (const TestInstruction& in : instructions) streams.add(in.devices, in.accesses);
  return streams.finish();
}

bool conflict(const TestInstruction& a, const TestInstruction& b) {
  for (const Access& x : a.accesses) {
    for (const Access& y : b.accesses) {
      const bool overlap = x.space == y.space && x.begin < y.end && y.begin < x.end;
      if (overlap && (x.write || y.write)) return true;
    }
  }
  return false;
}

/// What has certainly run before each (instruction, device), found by running the streams: a wait
/// learns what the sender knew when it sent the signal that the wait takes.
class Replay {
 public:
  using Part = std::pair<int, std::int32_t>;

  Replay(const std::vector<std::int32_t>& devices, const std::vector<Steps>& streams)
      : devices_(devices), streams_(streams), next_(devices.size()), known_(devices.size()) {
    bool moved = true;
    while (moved) {
      moved = false;
      for (std::size_t d = 0; d < devices.size(); ++d) moved = advance(d) || moved;
    }
  }

  bool finished() const {
    for (std::size_t d = 0; d < streams_.size(); ++d) {
      if (next_[d] != streams_[d].size()) return false;
    }
    return std::all_of(sent_.begin(), sent_.end(), [&](const auto& channel) {
      const auto it = taken_.find(channel.first);
      return it != taken_.end() && it->second == channel.second.size();
    });
  }
  const std::set<Part>& before(const Part& part) const { return before_.at(part); }
  /// Signals that were sent before and not taken when the device came to the instruction, by the
  /// sender's own position: what an instruction of several devices must not meet.
  bool left_over(int instruction, std::int32_t from, std::int32_t to) const {
    return sent_at_.at({instruction, from})[to] != taken_at_.at({instruction, to})[from];
  }

 private:
  bool advance(std::size_t d) {
    if (next_[d] == streams_[d].size()) return false;
    const StreamStep& step = streams_[d][next_[d]];
    const std::int32_t device = devices_[d];
    if (step.kind == Kind::Run) {
      const Part part{step.index, device};
      before_[part] = known_[d];
      known_[d].insert(part);
      for (std::int32_t other : devices_) {
        sent_at_[part][other] = sent_[{device, other}].size();
        taken_at_[part][other] = taken_[{other, device}];
      }
    } else if (step.kind == Kind::Signal) {
      sent_[{device, step.index}].push_back(known_[d]);
    } else {
      const auto& channel = sent_[{step.index, device}];
      std::size_t& taken = taken_[{step.index, device}];
      if (taken == channel.size()) return false;
      known_[d].insert(channel[taken].begin(), channel[taken].end());
      ++taken;
    }
    ++next_[d];
    return true;
  }

  using Pair = std::pair<std::int32_t, std::int32_t>;
  using Counts = std::map<std::int32_t, std::size_t>;

  std::vector<std::int32_t> devices_;
  const std::vector<Steps>& streams_;
  std::vector<std::size_t> next_;
  std::vector<std::set<Part>> known_;
  std::map<Part, std::set<Part>> before_;
  std::map<Pair, std::vector<std::set<Part>>> sent_;
  std::map<Pair, std::size_t> taken_;
  mutable std::map<Part, Counts> sent_at_, taken_at_;
};

std::vector<TestInstruction> random_instructions(std::mt19937_64& random,
                                                 const std::vector<std::int32_t>& devices) {
  std::uniform_int_distribution<int> coin(0, 5), begin(0, 30), length(1, 8), operands(1, 3);
  std::uniform_int_distribution<std::size_t> which(0, devices.size() - 1);
  std::vector<TestInstruction> instructions;
  for (int i = 0; i < 60; ++i) {
    std::set<std::int32_t> on = {devices[which(random)]};
    if (coin(random) == 0) on.insert(devices[which(random)]);
    if (coin(random) == 0) on.insert(devices[which(random)]);
    TestInstruction in{{on.begin(), on.end()}, {}};
    const int count = operands(random);
    for (int k = 0; k < count; ++k) {
      const std::int64_t at = begin(random);
      in.accesses.push_back({kFrame, at, at + length(random), coin(random) < 2});
    }
    if (coin(random) == 0) {
      in.accesses.push_back({{AccessSpace::Kind::Argument, coin(random) % 2}});
    }
    instructions.push_back(std::move(in));
  }
  return instructions;
}

/// All conflicts are ordered, all signals are taken, none is left when several devices meet.
void expect_order(const std::vector<TestInstruction>& instructions, const Replay& replay) {
  ASSERT_TRUE(replay.finished());
  for (std::size_t j = 0; j < instructions.size(); ++j) {
    const int later = static_cast<int>(j);
    for (std::int32_t to : instructions[j].devices) {
      for (std::int32_t from : instructions[j].devices) {
        ASSERT_FALSE(from != to && replay.left_over(later, from, to)) << "instruction " << j;
      }
      for (std::size_t i = 0; i < j; ++i) {
        if (!conflict(instructions[i], instructions[j])) continue;
        for (std::int32_t from : instructions[i].devices) {
          ASSERT_TRUE(replay.before({later, to}).contains({static_cast<int>(i), from}))
              << "instructions " << i << " and " << j;
        }
      }
    }
  }
}

TEST(DeviceStreams, OrderEveryConflict) {
  const std::vector<std::int32_t> devices = {0, 2, 3};
  for (unsigned seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    const auto instructions = random_instructions(random, devices);
    const std::vector<Steps> streams = streams_of(devices, instructions);
    expect_order(instructions, Replay(devices, streams));
  }
}

/// What an iteration finds in argument 0 the one before it had in argument 1, and the other way
/// round.
std::vector<TestInstruction> iteration_of(std::vector<TestInstruction> body, int iteration) {
  for (TestInstruction& in : body) {
    for (Access& access : in.accesses) {
      if (access.space.kind == AccessSpace::Kind::Argument && iteration % 2 == 1) {
        access.space.index = 1 - access.space.index;
      }
    }
  }
  return body;
}

/// `iterations` of a loop, written out.
struct UnrolledLoop {
  UnrolledLoop(const std::vector<std::int32_t>& devices, const std::vector<TestInstruction>& body,
               int iterations) {
    DeviceStreams loop(devices);
    for (int pass = 0; pass < DeviceStreams::kLoopPasses; ++pass) {
      loop.begin_pass();
      for (const TestInstruction& in : iteration_of(body, pass)) loop.add(in.devices, in.accesses);
    }
    const std::vector<Steps> once = loop.finish();
    const std::vector<CarriedSignals> carried = loop.carried_signals();
    streams.resize(devices.size());
    for (std::size_t d = 0; d < devices.size(); ++d) {
      for (const CarriedSignals& c : carried) {
        if (c.from == devices[d]) append(d, {Kind::Signal, c.to}, c.count);
      }
      for (int i = 0; i < iterations; ++i) {
        for (StreamStep step : once[d]) {
          if (step.kind == Kind::Run) step.index += i * static_cast<std::int32_t>(body.size());
          append(d, step, 1);
        }
      }
      for (const CarriedSignals& c : carried) {
        if (c.to == devices[d]) append(d, {Kind::Wait, c.from}, c.count);
      }
    }
    for (int i = 0; i < iterations; ++i) {
      const auto iteration = iteration_of(body, i);
      instructions.insert(instructions.end(), iteration.begin(), iteration.end());
    }
  }

  void append(std::size_t device, const StreamStep& step, int times) {
    streams[device].insert(streams[device].end(), static_cast<std::size_t>(times), step);
  }

  std::vector<Steps> streams;
  std::vector<TestInstruction> instructions;
};

TEST(DeviceStreams, LoopsOrderEveryConflictBetweenIterations) {
  const std::vector<std::int32_t> devices = {0, 2, 3};
  for (unsigned seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    auto body = random_instructions(random, devices);
    body.resize(1 + seed % 20);
    // Every device has something to do, as in a function.
    for (std::int32_t device : devices) body.push_back({{device}, {}});
    const UnrolledLoop loop(devices, body, 5);
    expect_order(loop.instructions, Replay(devices, loop.streams));
  }
}

TEST(DeviceStreams, AnIterationWaitsOnlyForWhatItOverwrites) {
  // Device 0 makes what device 1 first copies and then works on.
  const std::vector<TestInstruction> body = {
      {{0}, {{kFrame, 0, 8, true}}},
      {{1}, {{kFrame, 0, 8, false}, {kFrame, 8, 16, true}}},
      {{1}, {{kFrame, 8, 16, true}}},
  };
  const UnrolledLoop loop({0, 1}, body, 3);
  const Replay replay({0, 1}, loop.streams);
  EXPECT_TRUE(replay.before({6, 0}).contains({4, 1}));
  EXPECT_FALSE(replay.before({6, 0}).contains({5, 1}));
  EXPECT_TRUE(replay.before({3, 0}).contains({1, 1}));
  EXPECT_FALSE(replay.before({3, 0}).contains({2, 1}));
}

int count(const Steps& steps, Kind kind) {
  return static_cast<int>(std::count_if(steps.begin(), steps.end(),
                                        [&](const StreamStep& s) { return s.kind == kind; }));
}

TEST(DeviceStreams, ReadersDoNotWaitForEachOther) {
  const auto streams =
      streams_of({0, 1}, {{{0}, {{kFrame, 0, 8, false}}}, {{1}, {{kFrame, 0, 8, false}}}});
  EXPECT_EQ(count(streams[0], Kind::Signal), 0);
  EXPECT_EQ(count(streams[1], Kind::Wait), 0);
}

TEST(DeviceStreams, WritesWaitForReadersOfOtherDevices) {
  const auto streams =
      streams_of({0, 1}, {{{0}, {{kFrame, 0, 8, false}}}, {{1}, {{kFrame, 4, 12, true}}}});
  EXPECT_EQ(streams[0], (Steps{{Kind::Run, 0}, {Kind::Signal, 1}}));
  EXPECT_EQ(streams[1], (Steps{{Kind::Wait, 0}, {Kind::Run, 1}}));
}

TEST(DeviceStreams, OneWaitServesAllEarlierWork) {
  const auto streams = streams_of({0, 1}, {{{0}, {{kFrame, 0, 8, true}}},
                                           {{0}, {{kFrame, 8, 16, true}}},
                                           {{1}, {{kFrame, 8, 16, false}}},
                                           {{1}, {{kFrame, 0, 8, false}}}});
  EXPECT_EQ(count(streams[1], Kind::Wait), 1);
}

}  // namespace
}  // namespace pando
