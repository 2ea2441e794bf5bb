// The vector registers that the machine code of a chain has, and the literals behind it.
#pragma once

#if defined(__x86_64__)

#include <xbyak/xbyak.h>

#include <cstdint>
#include <map>

#include "pando/backends/cpu/fused/register_plan.hpp"

namespace pando::cpu {

class VectorRegisters {
 public:
  /// In Xbyak the base class of Zmm.
  using Ymm = Xbyak::Ymm;

  VectorRegisters() = default;
  explicit VectorRegisters(RegisterWidth width) : is_wide_(width == RegisterWidth::Bits512) {}

  /// 512 bits; else 256.
  bool is_wide() const { return is_wide_; }
  int bytes() const { return is_wide_ ? 64 : 32; }
  int lanes() const { return bytes() / 4; }
  /// Registers for values; two more are for steps of several instructions, one for an invariant or
  /// a literal that has to be loaded.
  int num_values() const { return is_wide_ ? 29 : 13; }

  Ymm reg(int number) const { return is_wide_ ? Xbyak::Zmm(number) : Ymm(number); }
  Ymm first_temporary() const { return reg(num_values()); }
  Ymm second_temporary() const { return reg(num_values() + 1); }
  Ymm loaded() const { return reg(num_values() + 2); }
  /// The lower half of a register.
  Xbyak::Xmm half_of(const Ymm& whole) const {
    return is_wide_ ? Ymm(whole.getIdx()) : Xbyak::Xmm(whole.getIdx());
  }

 private:
  bool is_wide_ = false;
};

/// Bits that all lanes of an operand have. AVX-512 broadcasts one lane wherever it is read; without
/// it all of them lie in memory.
class ChainLiterals {
 public:
  using Address = Xbyak::Address;

  explicit ChainLiterals(Xbyak::CodeGenerator& code) : code_(code) {}

  /// For another chain.
  void begin(bool broadcasts) {
    broadcasts_ = broadcasts;
    labels_.clear();
  }

  /// An operand of an instruction that computes.
  Address operand(std::uint32_t bits) {
    return broadcasts_ ? Xbyak::util::ptr_b[at(bits)] : Xbyak::util::ptr[at(bits)];
  }
  /// One lane, for an instruction that broadcasts.
  Address lane(std::uint32_t bits) { return Xbyak::util::dword[at(bits)]; }
  void load(std::uint32_t bits, const Xbyak::Ymm& to) {
    broadcasts_ ? code_.vbroadcastss(to, lane(bits)) : code_.vmovups(to, operand(bits));
  }

  /// Behind the code.
  void emit() {
    code_.align(32);
    for (auto& [bits, label] : labels_) {
      code_.L(label);
      for (int i = 0, copies = broadcasts_ ? 1 : 8; i < copies; ++i) code_.dd(bits);
    }
  }

 private:
  Xbyak::RegRip at(std::uint32_t bits) { return Xbyak::util::rip + labels_[bits]; }

  Xbyak::CodeGenerator& code_;
  bool broadcasts_ = false;
  std::map<std::uint32_t, Xbyak::Label> labels_;
};

}  // namespace pando::cpu

#endif
