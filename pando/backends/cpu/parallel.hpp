// Loops over the worker threads of a kernel.
#pragma once

#include <algorithm>
#include <cstdint>

#include "pando/backends/cpu/thread_pool.hpp"

namespace pando::cpu {

/// Calls `body(begin, end)` for consecutive parts of [0, count), at most `num_threads` of them,
/// split evenly and always in the same places; serially when a part would get fewer than `grain`
/// items. No allocation.
template <class Body>
void parallel_for(int num_threads, std::int64_t count, std::int64_t grain, const Body& body) {
  struct Loop {
    const Body& body;
    std::int64_t count, parts;
  };
  const std::int64_t parts = std::min(
      {std::int64_t{num_threads}, ThreadPool::kMaxParts, count / std::max<std::int64_t>(1, grain)});
  if (parts <= 1) {
    if (count > 0) body(std::int64_t{0}, count);
    return;
  }
  const Loop loop{body, count, parts};
  ThreadPool::of_this_thread().run(
      parts,
      [](const void* context, std::int64_t part) {
        const Loop& running = *static_cast<const Loop*>(context);
        const std::int64_t begin = running.count * part / running.parts;
        const std::int64_t end = running.count * (part + 1) / running.parts;
        if (begin < end) running.body(begin, end);
      },
      &loop);
}

/// The running part of parallel_for: 0 to num_threads - 1.
inline std::int64_t thread_index() { return ThreadPool::current_part(); }

}  // namespace pando::cpu
