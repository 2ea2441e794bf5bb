// Transfers of a stream between a program that runs and a thread of the host.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <mutex>
#include <string>
#include <vector>

#include "pando/runtime/waiting.hpp"

namespace pando {

/// A ring of transfers in the order in which they are made. A transfer has one part for each local
/// replica: each replica loads or stores its own, the host gives or takes all of it. Whoever is
/// ahead waits: the host when the ring is full of input or has no output, a replica the other way
/// round. It outlives runs: what the host gave ahead is there for the next one.
///
/// Methods may be called from any thread; one thread at a time is the host.
class TransferQueue {
 public:
  /// `name`: of the stream, for errors; `part_bytes`: of one replica's part; `room`: transfers that
  /// it holds. Throws ValueError for a `room` or number of parts below 1 and for negative bytes.
  TransferQueue(std::string name, bool host_to_device, std::int64_t part_bytes, std::int64_t parts,
                std::int64_t room);
  TransferQueue(const TransferQueue&) = delete;
  TransferQueue& operator=(const TransferQueue&) = delete;

  bool is_host_to_device() const { return host_to_device_; }
  std::int64_t part_bytes() const { return part_bytes_; }
  std::int64_t parts() const { return static_cast<std::int64_t>(positions_.size()); }
  std::int64_t transfer_bytes() const { return part_bytes_ * parts(); }

  // The host's side. All throw what `check` does while they wait.

  /// Gives one transfer, `transfer_bytes` of them. false: the queue was closed or has failed.
  bool put(const std::byte* transfer, const StopCheck& check);
  /// Takes the oldest transfer. false: it was closed, or has failed, and has none left.
  bool take(std::byte* transfer, const StopCheck& check);
  /// Those that all replicas have loaded, or stored, in all runs so far.
  std::int64_t transfers();
  /// Nothing more comes from the host, or is taken by it. Later loads, once the ring is empty, and
  /// stores throw RuntimeFault.
  void close();
  /// The same, at once, and with an error of the caller's: loads and stores throw it.
  void fail(std::exception_ptr error);

  // The program's side.

  /// Its runs take the queue in turn: throws ValueError if another one has it. All replicas begin
  /// at the same transfer, also after a run that failed: a transfer that one of them had loaded is
  /// over for all, one that not all had stored is dropped.
  void begin_run();
  void end_run();
  /// Where the next part of replica `part` is, which stays there until `end`. Waits until it is
  /// there, or there is room for it. Throws RuntimeFault if the queue was closed, what it failed
  /// with, and what `check` does.
  std::byte* begin(std::int64_t part, const StopCheck& check);
  void end(std::int64_t part);

 private:
  std::byte* slot(std::int64_t transfer) {
    return memory_.data() + transfer % room_ * transfer_bytes();
  }
  /// Of the replicas: the transfers that all have done, or the first has.
  std::int64_t slowest() const;
  std::int64_t fastest() const;
  bool is_over() const { return closed_ || error_ != nullptr; }

  const std::string name_;
  const bool host_to_device_;
  const std::int64_t part_bytes_, room_;
  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_, but for the bytes of transfers, which belong to whoever is at them.
  std::vector<std::byte> memory_;
  std::vector<std::int64_t> positions_;  // by part: transfers that it has done
  std::int64_t host_position_ = 0;
  bool closed_ = false, in_run_ = false;
  std::exception_ptr error_;
};

}  // namespace pando
