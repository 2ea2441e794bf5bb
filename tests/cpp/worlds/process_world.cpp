#include "tests/cpp/worlds/process_world.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <thread>
#include <utility>

#include "pando/base/error.hpp"
#include "pando/base/hash.hpp"
#include "pando/runtime/collective_elements.hpp"

namespace pando::testing {
namespace {

class ProcessCommunicator : public Communicator {
 public:
  /// `group`: its number, the same on all members; `ranks`: of the world.
  ProcessCommunicator(ProcessMesh& mesh, double timeout_seconds, std::function<bool()> should_stop,
                      std::uint64_t group, std::vector<int> ranks, int rank)
      : mesh_(mesh),
        timeout_seconds_(timeout_seconds),
        should_stop_(std::move(should_stop)),
        group_(group),
        ranks_(std::move(ranks)),
        rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(ranks_.size()); }

  void send(int to, std::int64_t tag, const std::byte* data, std::size_t bytes) override {
    mesh_.check();
    mesh_.send(world_rank(to), {.kind = PacketKind::Message, .group = group_, .number = tag}, {},
               data, bytes);
  }

  void receive(int from, std::int64_t tag, std::byte* data, std::size_t bytes) override {
    const std::string name = message_name("receive from", world_rank(from), tag);
    const Packet packet = mesh_.receive(
        {world_rank(from), PacketKind::Message, group_, tag, name, timeout_seconds_}, should_stop_);
    if (packet.data.size() != bytes) {
      throw RuntimeFault(
          message_size_text(world_rank(rank_), world_rank(from), tag, bytes, packet.data.size()));
    }
    if (bytes > 0) std::memcpy(data, packet.data.data(), bytes);
  }

  std::unique_ptr<Communicator> split(std::int64_t color, std::int64_t key) override {
    const SplitMembers members = gather_split(color, key);
    std::vector<int> world_ranks;
    world_ranks.reserve(members.ranks.size());
    for (const int rank : members.ranks) world_ranks.push_back(world_rank(rank));
    const std::uint64_t group = hash64(str_cat(group_, " ", run_, " ", started_, " ", color));
    return std::make_unique<ProcessCommunicator>(mesh_, timeout_seconds_, should_stop_, group,
                                                 std::move(world_ranks), members.own);
  }

  using Communicator::fail;
  void fail(const std::string& message) override { mesh_.fail(message); }
  void check() override { mesh_.check(); }

 private:
  struct UnderWay {
    const Collective* collective = nullptr;
    std::byte* output = nullptr;
  };

  int world_rank(int rank) const { return ranks_[static_cast<std::size_t>(rank)]; }

  Ticket start_exchange(const Collective& collective, const std::byte* input,
                        std::byte* output) override {
    if (run_ != mesh_.run()) {
      run_ = mesh_.run();
      started_ = 0;
      under_way_.clear();
    }
    const std::uint64_t number = started_++;
    const PacketHeader header{.kind = PacketKind::Collective,
                              .collective = collective.kind,
                              .reduction = collective.reduction,
                              .dtype = collective.dtype,
                              .group = group_,
                              .number = static_cast<std::int64_t>(number),
                              .id = collective.id,
                              .input_elements = collective.input_elements,
                              .output_elements = collective.output_elements};
    const auto bytes =
        static_cast<std::size_t>(collective.input_elements) * dtype_bytes(collective.dtype);
    for (const int rank : ranks_) mesh_.send(rank, header, collective.name, input, bytes);
    under_way_[number] = {&collective, output};
    return number;
  }

  void wait_for_exchange(Ticket ticket) override {
    const UnderWay own = under_way_.at(ticket);
    under_way_.erase(ticket);
    std::vector<Packet> packets;
    std::vector<const std::byte*> inputs;
    for (const int rank : ranks_) {
      packets.push_back(
          mesh_.receive({rank, PacketKind::Collective, group_, static_cast<std::int64_t>(ticket),
                         own.collective->name, timeout_seconds_},
                        should_stop_));
      check_same(*own.collective, packets.back(), rank);
      inputs.push_back(packets.back().data.data());
    }
    for (std::size_t i = 0; i < inputs.size(); ++i) inputs[i] = packets[i].data.data();
    elements_.compute(*own.collective, rank_, inputs, own.output);
  }

  void check_same(const Collective& own, const Packet& packet, int other) const {
    const PacketHeader& header = packet.header;
    const Collective there{
        header.collective,      header.reduction, header.dtype, header.input_elements,
        header.output_elements, header.id,        packet.name};
    if (!own.matches(there)) {
      throw RuntimeFault(mismatch_text(world_rank(rank_), own, other, there));
    }
  }

  ProcessMesh& mesh_;
  double timeout_seconds_;
  std::function<bool()> should_stop_;
  std::uint64_t group_;
  std::vector<int> ranks_;
  int rank_;
  std::uint64_t run_ = 0;  // that the rest is about
  std::uint64_t started_ = 0;
  std::map<Ticket, UnderWay> under_way_;
  CollectiveElements elements_;
};

bool sleeps(const std::filesystem::path& thread) {
  std::ifstream file(thread / "stat");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const std::size_t name_end = text.rfind(')');
  // A thread that has ended meanwhile has no text.
  return name_end == std::string::npos || text.substr(name_end, 3) == ") S";
}

/// A sanitizer's allocator keeps its locks over a fork: one that another thread had, which was just
/// beginning its work, is never free in the child.
void wait_until_other_threads_sleep() {
  const std::string own = std::to_string(::gettid());
  const auto all_sleep = [&] {
    for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task")) {
      if (thread.path().filename() != own && !sleeps(thread.path())) return false;
    }
    return true;
  };
  const auto limit = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (!all_sleep()) {
    if (std::chrono::steady_clock::now() > limit) {
      throw RuntimeFault("no fork: another thread of the process has worked for a minute");
    }
    std::this_thread::yield();
  }
}

/// A socket for each pair of ranks: [a][b] is a's end.
std::vector<std::vector<int>> make_sockets(std::size_t size) {
  std::vector<std::vector<int>> sockets(size, std::vector<int>(size, -1));
  for (std::size_t a = 0; a < size; ++a) {
    for (std::size_t b = a + 1; b < size; ++b) {
      int ends[2];
      if (::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) {
        throw RuntimeFault(str_cat("no socket pair: ", std::strerror(errno)));
      }
      sockets[a][b] = ends[0];
      sockets[b][a] = ends[1];
    }
  }
  return sockets;
}

void close_all(const std::vector<int>& files) {
  for (const int file : files) {
    if (file >= 0) ::close(file);
  }
}

/// The child's life: its outcome goes to the pipe.
[[noreturn]] void be_process(int first_rank, int end_rank,
                             const std::vector<std::vector<int>>& sockets, int pipe,
                             const std::function<std::string(const ProcessMeshes&)>& work) {
  std::string text;
  try {
    ProcessMeshes meshes;
    for (int rank = first_rank; rank < end_rank; ++rank) {
      meshes.push_back(
          std::make_unique<ProcessMesh>(rank, sockets[static_cast<std::size_t>(rank)]));
    }
    text = "v" + work(meshes);
  } catch (const std::exception& error) {
    text = str_cat("e", error.what());
  }
  for (std::size_t at = 0; at < text.size();) {
    const ssize_t written = ::write(pipe, text.data() + at, text.size() - at);
    if (written <= 0) break;
    at += static_cast<std::size_t>(written);
  }
  ::_exit(0);
}

struct Child {
  pid_t process = -1;
  int pipe = -1;
  std::string text;
  bool stopped = false;
};

bool is_stopped(const Child& child) {
  siginfo_t info{};
  return ::waitid(P_PID, static_cast<id_t>(child.process), &info, WSTOPPED | WNOHANG | WNOWAIT) ==
             0 &&
         info.si_pid == child.process;
}

Outcome outcome_of(Child& child) {
  int status = 0;
  ::waitpid(child.process, &status, 0);
  if (child.stopped) return {{}, "stopped"};
  if (child.text.starts_with("v")) return {child.text.substr(1), {}};
  if (child.text.starts_with("e")) return {{}, child.text.substr(1)};
  return {{}, str_cat("ended by signal ", WIFSIGNALED(status) ? WTERMSIG(status) : 0)};
}

/// Reads until all pipes are closed.
void collect(std::vector<Child>& children) {
  constexpr int kLookMilliseconds = 20;
  while (true) {
    std::vector<pollfd> events;
    std::vector<Child*> open;
    for (Child& child : children) {
      if (child.pipe < 0) continue;
      events.push_back({child.pipe, POLLIN, 0});
      open.push_back(&child);
    }
    if (open.empty()) return;
    ::poll(events.data(), static_cast<nfds_t>(events.size()), kLookMilliseconds);
    bool only_stopped = true;
    for (std::size_t i = 0; i < open.size(); ++i) {
      char block[4096];
      if (events[i].revents != 0) {
        const ssize_t got = ::read(open[i]->pipe, block, sizeof block);
        if (got > 0) open[i]->text.append(block, static_cast<std::size_t>(got));
        if (got <= 0) ::close(std::exchange(open[i]->pipe, -1));
      } else {
        // One that was killed is not stopped any more, but its pipe may still be open.
        open[i]->stopped = open[i]->stopped || is_stopped(*open[i]);
      }
      only_stopped &= open[i]->stopped;
    }
    if (!only_stopped) continue;
    for (const Child* child : open) ::kill(child->process, SIGKILL);
  }
}

}  // namespace

ProcessWorld::ProcessWorld(const ProcessMeshes& meshes, double timeout_seconds)
    : timeout_seconds_(timeout_seconds) {
  for (const auto& mesh : meshes) {
    meshes_.push_back(mesh.get());
    local_ranks_.push_back(mesh->rank());
  }
}

ProcessWorld::ProcessWorld(ProcessMesh& mesh, double timeout_seconds)
    : meshes_{&mesh}, timeout_seconds_(timeout_seconds), local_ranks_{mesh.rank()} {}

ProcessMesh& ProcessWorld::mesh_of(int rank) const {
  const int local = rank - local_ranks_.front();
  internal_check(local >= 0 && local < static_cast<int>(meshes_.size()),
                 "a process has communicators of its own ranks alone");
  return *meshes_[static_cast<std::size_t>(local)];
}

std::unique_ptr<Communicator> ProcessWorld::communicator(int rank,
                                                         std::function<bool()> should_stop) {
  std::vector<int> all(static_cast<std::size_t>(size()));
  for (int i = 0; i < size(); ++i) all[static_cast<std::size_t>(i)] = i;
  return std::make_unique<ProcessCommunicator>(mesh_of(rank), timeout_seconds_,
                                               std::move(should_stop), 0, std::move(all), rank);
}

void ProcessWorld::begin_run() {
  for (ProcessMesh* mesh : meshes_) mesh->begin_run();
}

void ProcessWorld::end_run(int rank) { mesh_of(rank).end_run(timeout_seconds_); }

std::vector<Outcome> run_in_processes(
    int size, int ranks_each, const std::function<std::string(const ProcessMeshes&)>& work) {
  const std::vector<std::vector<int>> sockets = make_sockets(static_cast<std::size_t>(size));
  std::vector<Child> children;
  for (int first = 0; first < size; first += ranks_each) {
    const int end = std::min(size, first + ranks_each);
    int ends[2];
    if (::pipe(ends) != 0) throw RuntimeFault(str_cat("no pipe: ", std::strerror(errno)));
    wait_until_other_threads_sleep();
    const pid_t process = ::fork();
    if (process < 0) throw RuntimeFault(str_cat("no process: ", std::strerror(errno)));
    if (process == 0) {
      // An end that is open here too would hide that the other process has ended.
      ::close(ends[0]);
      for (int rank = 0; rank < size; ++rank) {
        if (rank < first || rank >= end) close_all(sockets[static_cast<std::size_t>(rank)]);
      }
      for (const Child& other : children) ::close(other.pipe);
      be_process(first, end, sockets, ends[1], work);
    }
    ::close(ends[1]);
    children.push_back({process, ends[0], {}, false});
  }
  for (const std::vector<int>& ends : sockets) close_all(ends);
  collect(children);
  std::vector<Outcome> outcomes;
  for (Child& child : children) outcomes.push_back(outcome_of(child));
  return outcomes;
}

std::vector<Outcome> run_in_processes(int size,
                                      const std::function<std::string(ProcessMesh&)>& work) {
  return run_in_processes(size, 1,
                          [&](const ProcessMeshes& meshes) { return work(*meshes.front()); });
}

}  // namespace pando::testing
