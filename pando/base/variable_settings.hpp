// How the replicas of a program keep a variable.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace pando {

struct VariableSettings {
  /// Group of each replica, numbered from 0 without gaps; empty: all replicas are in group 0. The
  /// replicas of a group start with one value. With several groups the host array has one entry for
  /// each, on a leading axis.
  std::vector<std::int64_t> groups;
  /// The host array has one entry per replica instead.
  bool entry_per_replica = false;
  /// 0: in device memory. Else the id of the remote buffer in whose slot `slot` every replica keeps
  /// the value.
  std::int64_t remote_buffer = 0;
  std::int64_t slot = 0;
  /// Remote only: the value is cut into this many equal parts (padded with zeros); member i of a
  /// group keeps part i % shard_over.
  std::int64_t shard_over = 1;

  std::int64_t group_of(std::int64_t replica) const {
    return groups.empty() ? 0 : groups[static_cast<std::size_t>(replica)];
  }
  std::int64_t num_groups() const {
    return groups.empty() ? 1 : *std::max_element(groups.begin(), groups.end()) + 1;
  }
  /// Entries of the host array.
  std::int64_t host_entries(std::int64_t replicas) const {
    return entry_per_replica ? replicas : num_groups();
  }
  bool operator==(const VariableSettings&) const = default;
};

}  // namespace pando
