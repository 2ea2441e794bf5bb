// The raw state of a runner's replicas: what a checkpoint keeps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "pando/session/state_snapshot.hpp"

namespace pando {

class Engine;
class Runner;

/// Reads and writes device state of local replicas, one at a time, while the runner is attached.
/// Methods wait for a run, as those of the runner do. Errors: ValueError (no such tensor, buffer,
/// slot or local replica, or a wrong size), RuntimeFault (file tier).
class RunnerState {
 public:
  /// Keeps a reference.
  explicit RunnerState(Runner& runner) : runner_(runner) {}

  /// The state as it is now. Values of persistent tensors are copied, unless `rows_only`; remote
  /// rows are read while the runner goes on, with `room_bytes` for copies of rows that are stored
  /// meanwhile. A snapshot before it is cancelled. Throws RuntimeFault when a remote value could
  /// not be stored.
  std::shared_ptr<StateSnapshot> snapshot(std::int64_t room_bytes, bool rows_only = false) const;
  /// Persistent tensor `index` of Program::persistent.
  void read_persistent(std::int64_t replica, std::int64_t index, std::byte* to,
                       std::size_t bytes) const;
  void write_persistent(std::int64_t replica, std::int64_t index, const std::byte* from,
                        std::size_t bytes) const;
  /// Slot `slot` of the `buffer`-th of Program::remote_buffers; waits until it is written.
  void write_remote(std::int64_t replica, std::int64_t buffer, std::int64_t slot,
                    const std::byte* from, std::size_t bytes) const;
  void read_remote(std::int64_t replica, std::int64_t buffer, std::int64_t slot, std::byte* to,
                   std::size_t bytes) const;

 private:
  /// Throws ValueError when `replica` is not local, or does not exist.
  Engine& engine_of(std::int64_t replica, const char* what) const;

  Runner& runner_;
};

}  // namespace pando
