// Loops over the worker threads of a kernel.
#pragma once

#include <omp.h>

#include <algorithm>
#include <cstdint>

#include "pando/base/float_state.hpp"

namespace pando::cpu {

/// Calls `body(begin, end)` for consecutive parts of [0, count), one per thread, split evenly and
/// always in the same places, under the caller's floating point state; serially when a thread would
/// get fewer than `grain` items. No allocation.
template <class Body>
void parallel_for(int num_threads, std::int64_t count, std::int64_t grain, const Body& body) {
  const std::int64_t parts =
      std::min<std::int64_t>(num_threads, count / std::max<std::int64_t>(1, grain));
  if (parts <= 1) {
    if (count > 0) body(std::int64_t{0}, count);
    return;
  }
  const FloatState state = FloatState::current();
#pragma omp parallel num_threads(static_cast <int>(parts))
  {
    state.apply();
    const std::int64_t part = omp_get_thread_num();
    const std::int64_t running = omp_get_num_threads();
    const std::int64_t begin = count * part / running;
    const std::int64_t end = count * (part + 1) / running;
    if (begin < end) body(begin, end);
  }
}

/// The running part of parallel_for: 0 to num_threads - 1.
inline std::int64_t thread_index() { return omp_get_thread_num(); }

}  // namespace pando::cpu
