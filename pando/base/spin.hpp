// Waiting for another thread without sleeping.
#pragma once

#include <cstdint>
#include <thread>

namespace pando {

/// How often a thread of a team of `threads` looks for what another one does before it sleeps. With
/// a core for each, some tenths of a millisecond long: on a virtual machine a sleeper wakes a tenth
/// late. Otherwise never: the other one may need this core.
inline int team_spins(std::int64_t threads) {
  return threads <= static_cast<std::int64_t>(std::thread::hardware_concurrency()) ? 20000 : 0;
}

/// A moment between two looks, for the core's other work.
inline void spin_pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace pando
