#include "tests/cpp/worlds/process_mesh.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "pando/base/error.hpp"

namespace pando::testing {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kPollMilliseconds = 20;

Clock::time_point after(double seconds) {
  return Clock::now() +
         std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

/// Until `deadline`, at most kPollMilliseconds.
int milliseconds_until(Clock::time_point deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, kPollMilliseconds));
}

}  // namespace

ProcessMesh::ProcessMesh(int rank, std::vector<int> sockets) : rank_(rank), peers_(sockets.size()) {
  for (std::size_t i = 0; i < sockets.size(); ++i) peers_[i].socket = sockets[i];
}

ProcessMesh::~ProcessMesh() {
  for (const Peer& other : peers_) {
    if (other.socket >= 0) ::close(other.socket);
  }
}

void ProcessMesh::begin_run() {
  const std::lock_guard lock(mutex_);
  ++run_;
  for (Peer& other : peers_) {
    std::erase_if(other.packets, [&](const Packet& old) { return old.header.run < run_; });
  }
}

void ProcessMesh::end_run(double timeout_seconds) {
  std::unique_lock lock(mutex_);
  for (int other = 0; other < size(); ++other) {
    if (other != rank_) post(other, {.kind = PacketKind::End, .run = run_}, {}, nullptr);
  }
  const auto deadline = after(timeout_seconds);
  while (has_outgoing() && Clock::now() < deadline) pump(lock, milliseconds_until(deadline));
}

bool ProcessMesh::has_outgoing() const {
  return std::any_of(peers_.begin(), peers_.end(),
                     [](const Peer& other) { return !other.outgoing.empty(); });
}

void ProcessMesh::fail(const std::string& message) {
  const std::lock_guard lock(mutex_);
  if (!failures_.emplace(run_, std::pair{rank_, message}).second) return;
  const PacketHeader header{.kind = PacketKind::Failure, .run = run_, .name_bytes = message.size()};
  for (int other = 0; other < size(); ++other) {
    if (other != rank_) post(other, header, message, nullptr);
  }
}

void ProcessMesh::check() {
  std::unique_lock lock(mutex_);
  pump(lock, 0);
  throw_failure();
}

void ProcessMesh::throw_failure() {
  const auto failure = failures_.find(run_);
  if (failure == failures_.end()) return;
  throw ReplicaStopped(failure->second.first, failure->second.second);
}

void ProcessMesh::send(int to, PacketHeader header, std::string_view name, const std::byte* data,
                       std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  header.run = run_;
  header.name_bytes = name.size();
  header.data_bytes = bytes;
  if (to == rank_) {
    peer(to).packets.push_back({header, std::string(name), {data, data + bytes}});
  } else {
    post(to, header, name, data);
  }
}

void ProcessMesh::post(int to, const PacketHeader& header, std::string_view name,
                       const std::byte* data) {
  Peer& other = peer(to);
  if (other.is_gone) return;
  const auto append = [&](const void* from, std::size_t bytes) {
    const auto* begin = static_cast<const std::byte*>(from);
    other.outgoing.insert(other.outgoing.end(), begin, begin + bytes);
  };
  append(&header, sizeof header);
  append(name.data(), name.size());
  append(data, header.data_bytes);
  write_some(other);
}

Packet ProcessMesh::receive(const Wanted& wanted, const std::function<bool()>& should_stop) {
  const auto deadline = after(wanted.timeout_seconds);
  std::unique_lock lock(mutex_);
  while (true) {
    if (std::optional<Packet> packet = take(wanted)) return std::move(*packet);
    throw_failure();
    check_peers(wanted);
    if (Clock::now() >= deadline) {
      throw RuntimeFault(late_text(rank_, wanted.from, wanted.what, wanted.timeout_seconds));
    }
    pump(lock, milliseconds_until(deadline));
    if (!should_stop) continue;
    lock.unlock();
    if (should_stop()) throw Interrupted();
    lock.lock();
  }
}

std::optional<Packet> ProcessMesh::take(const Wanted& wanted) {
  std::list<Packet>& packets = peer(wanted.from).packets;
  for (auto at = packets.begin(); at != packets.end(); ++at) {
    const PacketHeader& header = at->header;
    if (header.run != run_ || header.kind != wanted.kind || header.group != wanted.group ||
        header.number != wanted.number) {
      continue;
    }
    Packet packet = std::move(*at);
    packets.erase(at);
    return packet;
  }
  return std::nullopt;
}

/// Checks that what has not come still can.
void ProcessMesh::check_peers(const Wanted& wanted) {
  for (int other = 0; other < size(); ++other) {
    if (!peer(other).is_gone || peer(other).ended_runs >= run_) continue;
    throw RuntimeFault(str_cat("replica ", rank_, " waits for replica ", wanted.from, " in ",
                               wanted.what, ", but the process of replica ", other, " has died"));
  }
  if (peer(wanted.from).ended_runs >= run_) {
    throw RuntimeFault(ended_text(rank_, wanted.from, wanted.what));
  }
}

void ProcessMesh::pump(std::unique_lock<std::mutex>& lock, int milliseconds) {
  std::vector<pollfd> events;
  std::vector<int> ranks;
  for (int other = 0; other < size(); ++other) {
    if (other == rank_ || peer(other).is_gone) continue;
    const bool writes = !peer(other).outgoing.empty();
    events.push_back(
        {peer(other).socket, static_cast<short>(writes ? POLLIN | POLLOUT : POLLIN), 0});
    ranks.push_back(other);
  }
  lock.unlock();
  ::poll(events.data(), static_cast<nfds_t>(events.size()), milliseconds);
  lock.lock();
  for (std::size_t i = 0; i < events.size(); ++i) {
    if ((events[i].revents & POLLOUT) != 0) write_some(peer(ranks[i]));
    if ((events[i].revents & ~POLLOUT) != 0) read_some(ranks[i]);
  }
}

void ProcessMesh::write_some(Peer& to) {
  std::array<std::byte, 1 << 16> block;
  while (!to.outgoing.empty()) {
    const std::size_t bytes = std::min(block.size(), to.outgoing.size());
    std::copy_n(to.outgoing.begin(), bytes, block.begin());
    const ssize_t sent = ::send(to.socket, block.data(), bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0) {
      // What nobody reads any more is dropped; reading tells that the process has ended.
      if (errno == EPIPE || errno == ECONNRESET) to.outgoing.clear();
      return;
    }
    to.outgoing.erase(to.outgoing.begin(), to.outgoing.begin() + sent);
  }
}

void ProcessMesh::read_some(int from) {
  Peer& other = peer(from);
  std::array<std::byte, 1 << 16> block;
  while (true) {
    const ssize_t got = ::recv(other.socket, block.data(), block.size(), MSG_DONTWAIT);
    if (got > 0) {
      other.incoming.insert(other.incoming.end(), block.begin(), block.begin() + got);
      continue;
    }
    if (got == 0 || errno == ECONNRESET) {
      other.is_gone = true;
      other.outgoing.clear();
    }
    break;
  }
  parse(from);
}

void ProcessMesh::parse(int from) {
  Peer& other = peer(from);
  std::size_t at = 0;
  while (other.incoming.size() - at >= sizeof(PacketHeader)) {
    Packet packet;
    const std::byte* begin = other.incoming.data() + at;
    std::memcpy(&packet.header, begin, sizeof(PacketHeader));
    const std::size_t name = sizeof(PacketHeader), data = name + packet.header.name_bytes;
    const std::size_t end = data + packet.header.data_bytes;
    if (other.incoming.size() - at < end) break;
    packet.name.assign(reinterpret_cast<const char*>(begin + name), data - name);
    packet.data.assign(begin + data, begin + end);
    at += end;
    const std::uint64_t run = packet.header.run;
    if (packet.header.kind == PacketKind::Failure) {
      failures_.emplace(run, std::pair{from, packet.name});
    } else if (packet.header.kind == PacketKind::End) {
      other.ended_runs = run;
    } else if (run >= run_) {
      other.packets.push_back(std::move(packet));
    }
  }
  other.incoming.erase(other.incoming.begin(),
                       other.incoming.begin() + static_cast<std::ptrdiff_t>(at));
}

}  // namespace pando::testing
