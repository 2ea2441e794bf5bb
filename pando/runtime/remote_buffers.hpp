// The remote buffers of one replica, and the I/O threads of those that are slow.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "pando/runtime/io_queue.hpp"
#include "pando/runtime/remote_memory.hpp"
#include "pando/runtime/run_profile.hpp"

namespace pando {

/// What the remote buffers of a replica are to lie in.
struct RemoteTier {
  std::vector<std::unique_ptr<RemoteMemory>> memories;  // one per buffer of the program
  int io_threads = 2;
  std::int64_t staging_bytes = std::int64_t{256} << 20;  // of stores under way

  /// Whether there will be I/O threads.
  bool is_slow() const;
};

/// Buffers are indices into Program::remote_buffers. Whatever waits throws what its `check` does;
/// abandon() must follow when that was in a run.
class RemoteBuffers {
 public:
  /// `profile`, which may be nullptr, is told of slow transfers.
  RemoteBuffers(RemoteTier tier, RunProfile* profile);

  bool are_slow() const { return io_ != nullptr; }
  RemoteMemory& memory(std::size_t buffer) const { return *memories_[buffer]; }
  /// For slow memories; nullptr: all are fast.
  IoQueue* io() const { return io_.get(); }

  /// The first `bytes` of a slot. Between runs, as all that follows. Throws RuntimeFault.
  void load(std::size_t buffer, std::int64_t slot, std::byte* to, std::size_t bytes,
            const StopCheck& check);
  /// The rest of the slot becomes zero. May go on until finish().
  void store(std::size_t buffer, std::int64_t slot, const std::byte* from, std::size_t bytes,
             const StopCheck& check);
  /// The rows of every buffer as they are now; see RowSnapshot. Throws RuntimeFault when a value
  /// could not be stored.
  std::vector<std::shared_ptr<RowSnapshot>> snapshot(const std::shared_ptr<SnapshotRoom>& room,
                                                     const StopCheck& check);
  IoReport report() const { return io_ == nullptr ? IoReport{} : io_->report(); }

  /// Tries the stores again that failed.
  void retry();
  /// Waits for the stores; throws the first error of one.
  void finish(const StopCheck& check);
  /// After a failed run: see IoQueue::abandon.
  void abandon();

 private:
  std::vector<std::unique_ptr<RemoteMemory>> memories_;
  std::unique_ptr<IoQueue> io_;
};

}  // namespace pando
