// What the replicas of a runner held at one moment.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

namespace pando {

class RowSnapshot;

/// Methods may be called from any thread, also while the runner runs.
class StateSnapshot {
 public:
  /// The state of one replica: its tensors by index, the rows of its remote buffers.
  struct Replica {
    std::int64_t rank = 0;
    std::map<std::int64_t, std::vector<std::byte>> persistent;
    std::vector<std::shared_ptr<RowSnapshot>> remote;
  };
  StateSnapshot(std::vector<Replica> replicas, std::size_t row_bytes);
  /// Cancels it.
  ~StateSnapshot();
  StateSnapshot(const StateSnapshot&) = delete;
  StateSnapshot& operator=(const StateSnapshot&) = delete;

  /// The value of a state tensor of one replica. ValueError.
  const std::vector<std::byte>& persistent(std::int64_t replica, std::int64_t index) const;
  /// A row of a remote buffer, an index into Program::remote_buffers.
  struct Row {
    std::int64_t replica = 0;
    std::int64_t buffer = 0;
    std::int64_t slot = 0;
  };
  /// Reads one more row, in any order, to the beginning of `to`, where the largest must fit;
  /// nullopt when none is left. Throws ValueError and RuntimeFault (a damaged row, a detached
  /// runner).
  std::optional<Row> next_row(std::byte* to, std::size_t bytes) const;
  void cancel() const;

 private:
  std::vector<Replica> replicas_;
  std::size_t row_bytes_;
};

}  // namespace pando
