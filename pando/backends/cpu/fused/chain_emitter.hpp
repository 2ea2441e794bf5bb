// Writes x86-64 machine code (AVX2, FMA, F16C, or AVX-512) for a chain. Empty for other processors.
#pragma once

#if defined(__x86_64__)

#include <xbyak/xbyak.h>

#include <cstdint>
#include <span>

#include "pando/backends/cpu/fused/chain_encoder.hpp"

namespace pando::cpu {

/// The loop over rows and lanes. The code takes a `const ChainRun*` (compiled_chain.hpp). It may
/// stand anywhere.
class ChainEmitter {
 public:
  explicit ChainEmitter(std::span<std::uint8_t> buffer) : code_(buffer.size(), buffer.data()) {}

  /// In the buffer, until the next call. Throws Xbyak::Error where it is too small.
  std::span<const std::uint8_t> emit(const ChainCode& chain);

 private:
  void emit_rows(const ChainCode& chain);
  /// Where a row need not be whole blocks of registers side by side.
  void emit_blocks_and_rest(const ChainCode& chain);
  /// To `end`, as many lanes at a time as so many registers side by side have.
  void emit_blocks(const ChainCode& chain, int registers, const Xbyak::Operand& end);
  void prefetch_inputs(const ChainCode& chain);
  void emit_action(const ChainCode& chain, const RegisterAction& action);
  void emit_op(const ChainCode& chain, const RegisterAction& action);

  Xbyak::CodeGenerator code_;
  ChainPlaces places_{code_};
  ChainOperands operands_{code_, places_};
  ChainEncoder encoder_{code_, places_, operands_};
};

}  // namespace pando::cpu

#endif
