// Waiting for another thread without sleeping.
#pragma once

#if defined(__linux__)
#include <sched.h>
#endif

#include <algorithm>
#include <cstdint>
#include <thread>

namespace pando {

/// The cores that the calling thread may use, which may be fewer than the machine has.
inline std::int64_t usable_cores() {
#if defined(__linux__)
  cpu_set_t cores;
  if (sched_getaffinity(0, sizeof cores, &cores) == 0) return CPU_COUNT(&cores);
#endif
  return std::max<std::int64_t>(1, std::thread::hardware_concurrency());
}

/// How often a thread of a team of `threads` looks for what another one does before it sleeps. With
/// a core for each, some tenths of a millisecond long: on a virtual machine a sleeper wakes a tenth
/// late. Otherwise never: the other one may need this core.
inline int team_spins(std::int64_t threads) { return threads <= usable_cores() ? 20000 : 0; }

/// A moment between two looks, for the core's other work.
inline void spin_pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace pando
