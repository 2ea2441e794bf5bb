#include "pando/runtime/thread_communicator.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "pando/base/error.hpp"

namespace pando {
namespace {

constexpr std::int64_t kElementsPerLine = 16;

/// Elements [begin, end) that member `index` reduces, whole cache lines but for the last.
std::pair<std::int64_t, std::int64_t> part_of(std::int64_t count, std::int64_t members,
                                              std::int64_t index) {
  const std::int64_t lines = (count + kElementsPerLine - 1) / kElementsPerLine;
  const auto at = [&](std::int64_t i) {
    return std::min(count, lines * i / members * kElementsPerLine);
  };
  return {at(index), at(index + 1)};
}

}  // namespace

ThreadGroup::ThreadGroup(std::vector<int> ranks)
    : ranks_(std::move(ranks)), slots_(ranks_.size()) {}

void ThreadGroup::reset() {
  for (Slot& slot : slots_) {
    for (Place& place : slot.places) {
      place.arrived.store(0, std::memory_order_relaxed);
      place.done.store(0, std::memory_order_relaxed);
    }
    slot.started = slot.performed = slot.finished_by_all = 0;
    slot.messages_sent.store(0, std::memory_order_relaxed);
    slot.messages.clear();
  }
}

ThreadGroups::ThreadGroups(int size) {
  std::vector<int> all(static_cast<std::size_t>(size));
  for (int rank = 0; rank < size; ++rank) all[static_cast<std::size_t>(rank)] = rank;
  world_ = std::make_shared<ThreadGroup>(std::move(all));
}

std::shared_ptr<ThreadGroup> ThreadGroups::split(const std::shared_ptr<ThreadGroup>& parent,
                                                 std::uint64_t collectives, std::int64_t color,
                                                 const std::vector<int>& world_ranks) {
  const std::lock_guard lock(mutex_);
  std::erase_if(children_, [](const Child& child) { return child.group.expired(); });
  const Key key{parent.get(), run_, collectives, color};
  for (const Child& child : children_) {
    if (child.key != key) continue;
    if (std::shared_ptr<ThreadGroup> group = child.group.lock()) return group;
  }
  auto group = std::make_shared<ThreadGroup>(world_ranks);
  children_.push_back({key, parent, group});
  return group;
}

void ThreadGroups::reset() {
  ++run_;
  world_->reset();
  for (const Child& child : children_) {
    if (const std::shared_ptr<ThreadGroup> group = child.group.lock()) group->reset();
  }
}

ThreadCommunicator::ThreadCommunicator(ThreadRanks& ranks, ThreadGroups& groups, ThreadRank& self,
                                       std::shared_ptr<ThreadGroup> group, int rank)
    : ranks_(ranks),
      groups_(groups),
      self_(self),
      group_(std::move(group)),
      rank_(rank),
      slot_(group_->slot(static_cast<std::size_t>(rank))) {}

ThreadCommunicator::~ThreadCommunicator() { remove_pending(); }

void ThreadCommunicator::remove_pending() {
  if (!self_.pending.empty()) std::erase(self_.pending, static_cast<PendingWork*>(this));
}

Communicator::Ticket ThreadCommunicator::start_exchange(const Collective& collective,
                                                        const std::byte* input, std::byte* output) {
  const Ticket ticket = enter(collective, input, output);
  self_.pending.push_back(this);
  return ticket;
}

Communicator::Ticket ThreadCommunicator::enter(const Collective& collective, const std::byte* input,
                                               std::byte* output) {
  const std::uint64_t n = slot_.started;
  if (n >= slot_.finished_by_all + ThreadGroup::kDepth) {
    // The place is still in use.
    const std::uint64_t oldest = n - ThreadGroup::kDepth;
    wait_for_arrivals(oldest);
    if (slot_.performed == oldest) perform(oldest);
    wait_until_done(oldest);
  }
  Place& place = group_->place(static_cast<std::size_t>(rank_), n);
  place.collective = &collective;
  place.input = input;
  place.output = output;
  place.arrived.store(n + 1);
  ranks_.notify();
  slot_.started = n + 1;
  return n;
}

void ThreadCommunicator::wait_for_exchange(Ticket ticket) {
  // Alone on its communicator, it needs no look from elsewhere.
  std::erase(self_.pending, static_cast<PendingWork*>(this));
  const bool has_more = slot_.performed < slot_.started && ticket + 1 < slot_.started;
  if (has_more) self_.pending.push_back(this);
  finish(ticket);
}

void ThreadCommunicator::finish(Ticket ticket) {
  while (slot_.performed <= ticket) {
    const std::uint64_t n = slot_.performed;
    wait_for_arrivals(n);
    if (slot_.performed == n) perform(n);
  }
  wait_until_done(ticket);
}

void ThreadCommunicator::wait_for_arrivals(std::uint64_t n) {
  const Place& own = group_->place(static_cast<std::size_t>(rank_), n);
  for (std::size_t other = 0; other < group_->size(); ++other) {
    const Place& there = group_->place(other, n);
    if (there.arrived.load(std::memory_order_acquire) > n) continue;
    ranks_.wait({&there.arrived, n + 1, group_->world_rank(other), own.collective->name}, self_);
  }
}

void ThreadCommunicator::wait_until_done(std::uint64_t n) {
  if (n < slot_.finished_by_all) return;
  const Place& own = group_->place(static_cast<std::size_t>(rank_), n);
  for (std::size_t other = 0; other < group_->size(); ++other) {
    const Place& there = group_->place(other, n);
    if (there.done.load(std::memory_order_acquire) > n) continue;
    ranks_.wait({&there.done, n + 1, group_->world_rank(other), own.collective->name, false},
                self_);
  }
  slot_.finished_by_all = n + 1;
}

bool ThreadCommunicator::is_ready() const {
  if (slot_.performed == slot_.started) return false;
  for (std::size_t other = 0; other < group_->size(); ++other) {
    if (group_->place(other, slot_.performed).arrived.load() <= slot_.performed) return false;
  }
  return true;
}

void ThreadCommunicator::perform(std::uint64_t n) {
  check_same(n);
  Place& own = group_->place(static_cast<std::size_t>(rank_), n);
  inputs_.clear();
  outputs_.clear();
  for (std::size_t other = 0; other < group_->size(); ++other) {
    const Place& place = group_->place(other, n);
    inputs_.push_back(place.input);
    outputs_.push_back(place.output);
  }
  const Collective& collective = *own.collective;
  if (collective.kind == Collective::Kind::AllReduce) {
    const auto [begin, end] = part_of(collective.input_elements, size(), rank_);
    elements_.reduce(collective, inputs_, begin, end, outputs_, begin);
  } else {
    elements_.compute(collective, rank_, inputs_, own.output);
  }
  slot_.performed = n + 1;
  own.done.store(n + 1);
  ranks_.notify();
}

void ThreadCommunicator::check_same(std::uint64_t n) const {
  const Collective& own = *group_->place(static_cast<std::size_t>(rank_), n).collective;
  for (std::size_t other = 0; other < group_->size(); ++other) {
    const Collective& there = *group_->place(other, n).collective;
    if (&there == &own || own.matches(there)) continue;
    throw RuntimeFault(mismatch_text(self_.rank, own, group_->world_rank(other), there));
  }
}

void ThreadCommunicator::send(int to, std::int64_t tag, const std::byte* data, std::size_t bytes) {
  ranks_.check();
  ThreadGroup::Slot& target = group_->slot(static_cast<std::size_t>(to));
  ThreadGroup::Message message{rank_, tag, {data, data + bytes}};
  {
    const std::lock_guard lock(target.mutex);
    target.messages.push_back(std::move(message));
    ++target.messages_sent;
  }
  ranks_.notify();
}

void ThreadCommunicator::receive(int from, std::int64_t tag, std::byte* data, std::size_t bytes) {
  const int other = group_->world_rank(static_cast<std::size_t>(from));
  const std::string name = message_name("receive from", other, tag);
  for (;;) {
    const std::uint64_t seen = slot_.messages_sent.load();
    if (take_message(from, tag, data, bytes)) return;
    ranks_.wait({&slot_.messages_sent, seen + 1, other, name}, self_);
  }
}

bool ThreadCommunicator::take_message(int from, std::int64_t tag, std::byte* data,
                                      std::size_t bytes) {
  std::vector<std::byte> given;
  {
    const std::lock_guard lock(slot_.mutex);
    const auto at = std::find_if(
        slot_.messages.begin(), slot_.messages.end(),
        [&](const auto& message) { return message.from == from && message.tag == tag; });
    if (at == slot_.messages.end()) return false;
    given = std::move(at->data);
    slot_.messages.erase(at);
  }
  if (given.size() != bytes) {
    const int other = group_->world_rank(static_cast<std::size_t>(from));
    throw RuntimeFault(message_size_text(self_.rank, other, tag, bytes, given.size()));
  }
  if (bytes > 0) std::memcpy(data, given.data(), bytes);
  return true;
}

std::unique_ptr<Communicator> ThreadCommunicator::split(std::int64_t color, std::int64_t key) {
  const SplitMembers members = gather_split(color, key);
  std::vector<int> world_ranks;
  world_ranks.reserve(members.ranks.size());
  for (const int rank : members.ranks) {
    world_ranks.push_back(group_->world_rank(static_cast<std::size_t>(rank)));
  }
  return std::make_unique<ThreadCommunicator>(
      ranks_, groups_, self_, groups_.split(group_, slot_.started, color, world_ranks),
      members.own);
}

}  // namespace pando
