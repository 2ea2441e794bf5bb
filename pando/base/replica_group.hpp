// Groups of replicas with a constant stride.
#pragma once

#include <cstdint>

namespace pando {

/// A division of the replicas into groups of `size` members that lie `stride` apart. It fits
/// `replicas` replicas when stride * size divides them.
struct ReplicaGroups {
  std::int64_t stride = 1;
  std::int64_t size = 1;

  bool fits(std::int64_t replicas) const {
    return stride > 0 && size > 0 && replicas % (stride * size) == 0;
  }
  /// Position of `replica` in its group.
  std::int64_t index_of(std::int64_t replica) const { return replica % (stride * size) / stride; }
  /// Member `index` of the group of `replica`.
  std::int64_t member(std::int64_t replica, std::int64_t index) const {
    return replica + (index - index_of(replica)) * stride;
  }
  bool operator==(const ReplicaGroups&) const = default;
};

}  // namespace pando
