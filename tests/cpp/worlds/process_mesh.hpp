// Sockets between the processes of a world, and what came in by them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pando/runtime/communicator.hpp"

namespace pando::testing {

enum class PacketKind : std::uint8_t { Collective, Message, Failure, End };

/// What goes before the name and the data of a packet, as it is sent.
struct PacketHeader {
  PacketKind kind = PacketKind::End;
  Collective::Kind collective = Collective::Kind::Barrier;
  Reduction reduction = Reduction::Local;
  DType dtype = DType::Float32;
  std::uint64_t run = 0;
  std::uint64_t group = 0;  // the communicator
  std::int64_t number = 0;  // of collectives their order, of messages the tag
  std::int64_t id = 0;
  std::int64_t input_elements = 0;
  std::int64_t output_elements = 0;
  std::uint64_t name_bytes = 0;
  std::uint64_t data_bytes = 0;
};

struct Packet {
  PacketHeader header;
  std::string name;
  std::vector<std::byte> data;
};

/// One process's side. `fail` and `check` may be called from any thread, the rest by one at a time.
class ProcessMesh {
 public:
  /// `sockets`: by rank; this rank's own is -1. They are closed at the end.
  ProcessMesh(int rank, std::vector<int> sockets);
  ~ProcessMesh();
  ProcessMesh(const ProcessMesh&) = delete;
  ProcessMesh& operator=(const ProcessMesh&) = delete;

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(peers_.size()); }
  /// Counts begin_run.
  std::uint64_t run() const { return run_; }

  void begin_run();
  /// Returns when all that was sent has left, or after `timeout_seconds`.
  void end_run(double timeout_seconds);
  void fail(const std::string& message);
  void check();

  void send(int to, PacketHeader header, std::string_view name, const std::byte* data,
            std::size_t bytes);

  struct Wanted {
    int from = 0;
    PacketKind kind = PacketKind::Message;
    std::uint64_t group = 0;
    std::int64_t number = 0;
    std::string_view what;  // for errors
    double timeout_seconds = 0;
  };
  Packet receive(const Wanted& wanted, const std::function<bool()>& should_stop);

 private:
  struct Peer {
    int socket = -1;
    bool is_gone = false;          // its process has ended
    std::uint64_t ended_runs = 0;  // the highest run that it has ended
    std::vector<std::byte> incoming;
    std::deque<std::byte> outgoing;
    std::list<Packet> packets;
  };

  Peer& peer(int rank) { return peers_[static_cast<std::size_t>(rank)]; }
  void post(int to, const PacketHeader& header, std::string_view name, const std::byte* data);
  std::optional<Packet> take(const Wanted& wanted);
  void check_peers(const Wanted& wanted);
  /// Sends and receives what can be, after waiting for that for some milliseconds.
  void pump(std::unique_lock<std::mutex>& lock, int milliseconds);
  void write_some(Peer& to);
  void read_some(int from);
  void parse(int from);
  void throw_failure();
  bool has_outgoing() const;

  int rank_;
  std::vector<Peer> peers_;
  std::uint64_t run_ = 0;
  std::map<std::uint64_t, std::pair<int, std::string>> failures_;  // the first of each run
  std::mutex mutex_;
};

}  // namespace pando::testing
