// Waiting for another thread without sleeping.
#pragma once

namespace pando {

/// How often a thread with a core of its own looks for what a thread of the same team does, before
/// it sleeps: some tenths of a millisecond. On a virtual machine a sleeper wakes a tenth late.
inline constexpr int kTeamSpins = 20000;

/// A moment between two looks, for the core's other work.
inline void spin_pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace pando
