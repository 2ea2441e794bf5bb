// Exchange between ranks that are threads of one process.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <tuple>
#include <vector>

#include "pando/runtime/collective_elements.hpp"
#include "pando/runtime/communicator.hpp"
#include "pando/runtime/thread_ranks.hpp"

namespace pando {

/// Where the threads of one communicator meet.
class ThreadGroup {
 public:
  /// Collectives of one rank that may be under way at once; a further start waits.
  static constexpr std::uint64_t kDepth = 8;

  /// `ranks`: of the world, in the order of the communicator.
  explicit ThreadGroup(std::vector<int> ranks);

  /// Nothing is under way. No rank may be running.
  void reset();

  /// What the others see of a rank's n-th collective (n from 0), in its n % kDepth-th place:
  /// `arrived` is n + 1 once the other fields are set, `done` once the rank has done its part.
  struct alignas(64) Place {
    std::atomic<std::uint64_t> arrived{0};
    std::atomic<std::uint64_t> done{0};
    const Collective* collective = nullptr;
    const std::byte* input = nullptr;
    std::byte* output = nullptr;
  };
  struct Message {
    int from = 0;
    std::int64_t tag = 0;
    std::vector<std::byte> data;
  };
  struct Slot {
    std::array<Place, kDepth> places;
    // What the rank itself counts, of collectives.
    std::uint64_t started = 0, performed = 0, finished_by_all = 0;
    // What was sent to the rank.
    alignas(64) std::atomic<std::uint64_t> messages_sent{0};
    std::mutex mutex;
    std::list<Message> messages;
  };

  std::size_t size() const { return ranks_.size(); }
  int world_rank(std::size_t rank) const { return ranks_[rank]; }
  Slot& slot(std::size_t rank) { return slots_[rank]; }
  Place& place(std::size_t rank, std::uint64_t n) { return slots_[rank].places[n % kDepth]; }

 private:
  std::vector<int> ranks_;
  std::vector<Slot> slots_;
};

/// The groups of a world of threads, which all its ranks find.
class ThreadGroups {
 public:
  explicit ThreadGroups(int size);

  const std::shared_ptr<ThreadGroup>& world() const { return world_; }
  /// The group of the ranks with `color` that a split of `parent` makes after `collectives` there.
  std::shared_ptr<ThreadGroup> split(const std::shared_ptr<ThreadGroup>& parent,
                                     std::uint64_t collectives, std::int64_t color,
                                     const std::vector<int>& world_ranks);
  void reset();

 private:
  /// Parent, run, collectives of the parent in the run, color.
  using Key = std::tuple<const ThreadGroup*, std::int64_t, std::uint64_t, std::int64_t>;
  struct Child {
    Key key;
    std::shared_ptr<ThreadGroup> parent;  // keeps its address its own
    std::weak_ptr<ThreadGroup> group;
  };

  std::mutex mutex_;
  std::int64_t run_ = 0;
  std::shared_ptr<ThreadGroup> world_;
  std::vector<Child> children_;
};

/// Ranks read each other's memory: each reduces one part of the elements, in rank order, and writes
/// it to all that want it.
class ThreadCommunicator : public Communicator, private PendingWork {
 public:
  /// `rank`: in `group`. What is referred to must outlive it.
  ThreadCommunicator(ThreadRanks& ranks, ThreadGroups& groups, ThreadRank& self,
                     std::shared_ptr<ThreadGroup> group, int rank);
  ~ThreadCommunicator() override;

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(group_->size()); }
  void send(int to, std::int64_t tag, const std::byte* data, std::size_t bytes) override;
  void receive(int from, std::int64_t tag, std::byte* data, std::size_t bytes) override;
  std::unique_ptr<Communicator> split(std::int64_t color, std::int64_t key) override;
  using Communicator::fail;
  void fail(const std::string& message) override { ranks_.fail(self_.rank, message); }
  void check() override { ranks_.check(); }

 private:
  using Place = ThreadGroup::Place;

  Ticket start_exchange(const Collective& collective, const std::byte* input,
                        std::byte* output) override;
  void wait_for_exchange(Ticket ticket) override;
  void run_exchange(const Collective& collective, const std::byte* input,
                    std::byte* output) override {
    finish(enter(collective, input, output));
  }

  /// Arrives at the next collective.
  Ticket enter(const Collective& collective, const std::byte* input, std::byte* output);
  void finish(Ticket ticket);
  bool is_ready() const override;
  void advance() override { perform(slot_.performed); }

  /// Waits until all others have arrived at this rank's n-th collective.
  void wait_for_arrivals(std::uint64_t n);
  void wait_until_done(std::uint64_t n);
  /// This rank's part of its n-th collective, at which all have arrived.
  void perform(std::uint64_t n);
  /// Throws RuntimeFault unless all are at the same n-th collective.
  void check_same(std::uint64_t n) const;
  bool take_message(int from, std::int64_t tag, std::byte* data, std::size_t bytes);
  void remove_pending();

  ThreadRanks& ranks_;
  ThreadGroups& groups_;
  ThreadRank& self_;
  std::shared_ptr<ThreadGroup> group_;
  int rank_;
  ThreadGroup::Slot& slot_;
  CollectiveElements elements_;
  std::vector<const std::byte*> inputs_;
  std::vector<std::byte*> outputs_;
};

}  // namespace pando
