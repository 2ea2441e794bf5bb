// Where the machine code of a chain finds values: registers, stack, memory, literals.
#pragma once

#if defined(__x86_64__)

#include <xbyak/xbyak.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "pando/backends/cpu/fused/chain_registers.hpp"

namespace pando::cpu {

/// What is to be written.
struct ChainCode {
  const ChainBody* body = nullptr;
  const std::vector<int>* moving_slots = nullptr;
  const RegisterPlan* plan = nullptr;
  /// As many registers side by side hold each value of the plan, so that steps of neighbouring
  /// lanes run at the same time.
  int unroll = 1;
  RegisterWidth width = RegisterWidth::Bits256;
  /// Stores go past the caches.
  bool streams = false;
};

class ChainPlaces {
 public:
  using Address = Xbyak::Address;
  using Reg64 = Xbyak::Reg64;
  using Ymm = Xbyak::Ymm;

  static constexpr std::size_t kMostMovingSlots = 13;

  explicit ChainPlaces(Xbyak::CodeGenerator& code) : code_(code), literals_(code) {}

  /// For another chain; `chain` must outlive its code's making.
  void begin(const ChainCode& chain);

  const VectorRegisters& registers() const { return registers_; }
  ChainLiterals& literals() { return literals_; }

  /// Loads what stays in registers and on the stack; the argument is a `const ChainRun*`.
  void emit_entry();
  /// Whether a row may end within the registers side by side.
  bool has_rest() const { return num_block_ends() > 0; }
  /// Where a row's last block of that many registers ends; where it has a rest, for the registers
  /// side by side and for their half, quarter and so on that a row may end within.
  Address blocks_end(int registers) const;
  /// To the next row, or to `end` after the last one.
  void emit_next_row(const Xbyak::Label& row);
  void emit_exit();

  /// Which of the registers side by side the following are about.
  void go_to_lanes_of(int side) { side_ = side; }
  Ymm reg(int number) const { return registers_.reg(number * chain_->unroll + side_); }
  Address lanes_of(int slot) const;
  Address half_lanes_of(int slot) const;
  /// Lanes `bytes` behind those that the block begins with.
  Address ahead_of(int slot, int bytes) const;
  Address spill_place(int place) const { return stack_place(place * chain_->unroll + side_); }
  /// Of a literal that the code needs often, where registers are left.
  std::optional<Ymm> literal_register(std::uint32_t bits) const;
  /// The slot of an invariant has one of the two.
  std::optional<Ymm> invariant_register(int slot) const;
  Address invariant_place(int slot) const { return stack_place(invariant_places_.at(slot)); }

  const Reg64 index = Xbyak::util::rdi, end = Xbyak::util::rsi;  // lanes of a row

 private:
  static constexpr int kPointerBytes = 8;

  /// What is the same for all blocks: a slot, or the bits of a literal.
  struct Invariant {
    bool is_literal = false;
    std::uint32_t name = 0;
    int uses = 0;
  };
  std::vector<Invariant> invariants_by_use() const;
  Reg64 pointer(int slot) const;
  Address stack_place(int place) const;
  Address rows_left() const;
  Address row_steps() const;
  int num_block_ends() const;

  Xbyak::CodeGenerator& code_;
  const ChainCode* chain_ = nullptr;
  VectorRegisters registers_;
  std::map<int, int> invariant_registers_, invariant_places_;  // by slot
  std::map<std::uint32_t, int> literal_registers_;             // by bits
  ChainLiterals literals_;
  int places_bytes_ = 0, frame_bytes_ = 0;
  int side_ = 0;
};

}  // namespace pando::cpu

#endif
