// Random sequences of everything that communicators do, against plain loops.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <random>

#include "pando/base/error.hpp"
#include "tests/cpp/worlds/plain_collectives.hpp"
#include "tests/cpp/worlds/worlds.hpp"

namespace pando::testing {
namespace {

using Kind = Collective::Kind;

using Random = std::mt19937_64;

int pick(Random& random, int below) {
  return static_cast<int>(random() % static_cast<std::uint64_t>(below));
}

Numbers numbers_of(std::uint64_t seed, int step, int rank, std::int64_t count) {
  Random random(seed * 1000003 + static_cast<std::uint64_t>(step) * 101 +
                static_cast<std::uint64_t>(rank));
  Numbers numbers(static_cast<std::size_t>(count));
  for (double& number : numbers) number = static_cast<double>(random() % 4);
  return numbers;
}

/// One rank's way through the sequence of a seed: all ranks draw the same numbers from `shared_`,
/// and the order of waits from their own.
class Walk {
 public:
  Walk(Communicator& world, std::uint64_t seed)
      : world_(world), seed_(seed), shared_(seed), own_(seed + 77 * world.rank() + 1) {
    Group all{&world, nullptr, {}};
    for (int rank = 0; rank < world.size(); ++rank) all.ranks.push_back(rank);
    groups_.push_back(std::move(all));
  }

  std::string run() {
    constexpr int kSteps = 60;
    for (step_ = 0; step_ < kSteps; ++step_) {
      const int choice = pick(shared_, 10);
      if (choice < 6) start();
      if (choice == 6) pass_message();
      if (choice == 7 && groups_.size() < 5) split();
      if (choice > 7) communicate_blocking();
      while (!under_way_.empty() && pick(own_, 3) == 0) wait_for_one();
    }
    while (!under_way_.empty()) wait_for_one();
    return text_;
  }

 private:
  struct Group {
    Communicator* communicator;
    std::unique_ptr<Communicator> owned;
    std::vector<int> ranks;  // of the world
  };
  struct UnderWay {
    Collective collective;
    Communicator* communicator = nullptr;
    std::vector<std::byte> input, output;
    Numbers wanted;
    Communicator::Ticket ticket = 0;
  };

  /// Draws what a group does: its members differ between ranks, its place in the list does not.
  UnderWay draw() {
    constexpr Kind kKinds[] = {Kind::Barrier, Kind::AllReduce, Kind::ReduceScatter,
                               Kind::AllGather};
    constexpr Reduction kDrawnReductions[] = {Reduction::Add, Reduction::Max, Reduction::Local};
    constexpr DType kDrawnDTypes[] = {DType::Float32, DType::Float16, DType::Int32, DType::UInt32};
    const Group& group =
        groups_[static_cast<std::size_t>(pick(shared_, static_cast<int>(groups_.size())))];
    const auto size = static_cast<std::int64_t>(group.ranks.size());
    const int count = pick(shared_, 4) == 0 ? pick(shared_, 6000) : pick(shared_, 40);
    UnderWay next;
    Collective& collective = next.collective;
    collective.kind = kKinds[pick(shared_, 4)];
    collective.dtype = kDrawnDTypes[pick(shared_, 4)];
    collective.id = step_;
    collective.name = "a random collective";
    const auto reduction = kDrawnReductions[pick(shared_, 3)];
    const std::int64_t part = (count + size - 1) / size;
    switch (collective.kind) {
      case Kind::Barrier:
        break;
      case Kind::AllReduce:
        collective.reduction = reduction == Reduction::Local ? Reduction::Min : reduction;
        collective.input_elements = collective.output_elements = count;
        break;
      case Kind::ReduceScatter:
        collective.reduction = reduction;
        collective.input_elements = count;
        collective.output_elements = part;
        break;
      case Kind::AllGather:
        collective.input_elements = part;
        collective.output_elements = count;
        break;
    }
    fill(next, group);
    return next;
  }

  void fill(UnderWay& next, const Group& group) const {
    const Collective& collective = next.collective;
    std::vector<Numbers> inputs;
    for (const int rank : group.ranks) {
      inputs.push_back(numbers_of(seed_, step_, rank, collective.input_elements));
    }
    next.communicator = group.communicator;
    const int own = group.communicator->rank();
    next.input = encode(inputs[static_cast<std::size_t>(own)], collective.dtype);
    next.output.resize(static_cast<std::size_t>(collective.output_elements) *
                       dtype_bytes(collective.dtype));
    if (collective.kind != Collective::Kind::Barrier) {
      next.wanted = plain_collective(collective, own, inputs);
    }
  }

  void check(const UnderWay& done) {
    if (decode(done.output, done.collective.dtype) == done.wanted) return;
    text_ += str_cat("wrong result of step ", done.collective.id, "; ");
  }

  void start() {
    under_way_.push_back(std::make_unique<UnderWay>(draw()));
    UnderWay& next = *under_way_.back();
    next.ticket = next.communicator->start(next.collective, next.input.data(), next.output.data());
  }

  void communicate_blocking() {
    UnderWay next = draw();
    next.communicator->run(next.collective, next.input.data(), next.output.data());
    check(next);
  }

  void wait_for_one() {
    const int index = pick(own_, static_cast<int>(under_way_.size()));
    const auto at = under_way_.begin() + index;
    (*at)->communicator->wait((*at)->ticket);
    check(**at);
    under_way_.erase(at);
  }

  void pass_message() {
    const int from = pick(shared_, world_.size()), to = pick(shared_, world_.size());
    const std::int64_t tag = pick(shared_, 3), count = pick(shared_, 3000);
    const std::vector<std::byte> data =
        encode(numbers_of(seed_, step_, from, count), DType::Float32);
    if (from == to) return;
    if (world_.rank() == from) world_.send(to, tag, data.data(), data.size());
    if (world_.rank() != to) return;
    std::vector<std::byte> got(data.size());
    world_.receive(from, tag, got.data(), got.size());
    if (got != data) text_ += str_cat("wrong message in step ", step_, "; ");
  }

  /// Every member knows what the others ask for.
  void split() {
    const auto parent = static_cast<std::size_t>(pick(shared_, static_cast<int>(groups_.size())));
    const auto color_of = [&](int rank) { return numbers_of(seed_, step_, rank, 1)[0] > 1; };
    const auto key_of = [&](int rank) { return numbers_of(seed_, step_, rank, 2)[1]; };
    const int own = world_.rank();
    Group next{
        nullptr,
        groups_[parent].communicator->split(color_of(own), static_cast<std::int64_t>(key_of(own))),
        {}};
    next.communicator = next.owned.get();
    for (const int rank : groups_[parent].ranks) {
      if (color_of(rank) == color_of(own)) next.ranks.push_back(rank);
    }
    std::stable_sort(next.ranks.begin(), next.ranks.end(),
                     [&](int a, int b) { return key_of(a) < key_of(b); });
    const auto at = std::find(next.ranks.begin(), next.ranks.end(), own) - next.ranks.begin();
    if (next.owned->rank() != at) text_ += str_cat("wrong rank in step ", step_, "; ");
    groups_.push_back(std::move(next));
  }

  Communicator& world_;
  std::uint64_t seed_;
  Random shared_, own_;
  int step_ = 0;
  std::vector<Group> groups_;
  std::deque<std::unique_ptr<UnderWay>> under_way_;
  std::string text_;
};

class CommunicatorsRandom : public ::testing::TestWithParam<WorldKind> {};

INSTANTIATE_TEST_SUITE_P(Worlds, CommunicatorsRandom, ::testing::ValuesIn(kWorldKinds),
                         [](const auto& kind) { return name_of(kind.param); });

TEST_P(CommunicatorsRandom, SequencesGiveWhatPlainLoopsGive) {
  constexpr std::uint64_t kSequences = 60;
  for (std::uint64_t seed = 1; seed <= kSequences; ++seed) {
    const int size = 2 + static_cast<int>(seed % 3);
    const auto outcomes = run_ranks(GetParam(), size, 60, [&](Communicator& communicator) {
      return Walk(communicator, seed).run();
    });
    for (std::size_t rank = 0; rank < outcomes.size(); ++rank) {
      EXPECT_EQ(outcomes[rank].error + outcomes[rank].value, "")
          << "seed " << seed << ", rank " << rank;
    }
  }
}

}  // namespace
}  // namespace pando::testing
