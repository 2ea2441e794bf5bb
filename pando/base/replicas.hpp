// How many replicas there may be.
#pragma once

#include <cstdint>

#include "pando/base/error.hpp"

namespace pando {

/// A replica has a thread and memory of its own: more cannot be.
inline constexpr std::int64_t kMostReplicas = std::int64_t{1} << 16;

/// Throws ValueError.
inline void check_replicas(std::int64_t replicas) {
  if (replicas >= 1 && replicas <= kMostReplicas) return;
  throw ValueError(
      str_cat("wanted a replication factor from 1 to ", kMostReplicas, "; given ", replicas));
}

}  // namespace pando
