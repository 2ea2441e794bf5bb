// The floating point control state of a thread.
#pragma once

#include <cstdint>

#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

namespace pando {

/// Denormals are treated as zero while a program runs: on most CPUs one denormal operand costs a
/// hundred cycles, and vanishing gradients are full of them. Where the CPU has no such control
/// (other than x86 and 64-bit ARM) the state is empty and denormals stay.
class FloatState {
 public:
#if defined(__SSE2__)
  using Bits = std::uint32_t;
  static constexpr Bits kFlush = 0x8040;  // flush to zero, denormals are zero
  static FloatState current() { return FloatState(_mm_getcsr()); }
  void apply() const {
    if (_mm_getcsr() != bits_) _mm_setcsr(bits_);
  }
#elif defined(__aarch64__)
  using Bits = std::uint64_t;
  static constexpr Bits kFlush = Bits{1} << 24;
  static FloatState current() {
    Bits bits = 0;
    asm volatile("mrs %0, fpcr" : "=r"(bits));
    return FloatState(bits);
  }
  void apply() const {
    if (current().bits_ != bits_) asm volatile("msr fpcr, %0" : : "r"(bits_));
  }
#else
  using Bits = std::uint32_t;
  static constexpr Bits kFlush = 0;
  static FloatState current() { return FloatState(0); }
  void apply() const {}
#endif

  static FloatState of_bits(Bits bits) { return FloatState(bits); }
  Bits bits() const { return bits_; }
  FloatState flushing_denormals() const { return FloatState(bits_ | kFlush); }
  bool flushes_denormals() const { return kFlush != 0 && (bits_ & kFlush) == kFlush; }

 private:
  explicit FloatState(Bits bits) : bits_(bits) {}
  Bits bits_;
};

/// Flushes denormals in the calling thread until the end of the scope.
class FlushDenormals {
 public:
  FlushDenormals() : before_(FloatState::current()) { before_.flushing_denormals().apply(); }
  ~FlushDenormals() { before_.apply(); }
  FlushDenormals(const FlushDenormals&) = delete;
  FlushDenormals& operator=(const FlushDenormals&) = delete;

 private:
  FloatState before_;
};

}  // namespace pando
