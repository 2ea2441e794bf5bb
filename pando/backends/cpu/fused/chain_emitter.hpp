// Writes x86-64 machine code (AVX2, FMA, F16C) for a chain. Empty for other processors.
#pragma once

#if defined(__x86_64__)

#include <xbyak/xbyak.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "pando/backends/cpu/fused/register_plan.hpp"

namespace pando::cpu {

/// What is to be written.
struct ChainCode {
  const std::vector<ChainStep>* steps = nullptr;
  const std::vector<int>* moving_slots = nullptr;
  const RegisterPlan* plan = nullptr;
  /// As many registers side by side hold each value of the plan, so that steps of neighbouring
  /// lanes run at the same time.
  int unroll = 1;
  /// Stores go past the caches.
  bool streams = false;
};

/// The code takes a `const ChainRun*` (compiled_chain.hpp). It may stand anywhere.
class ChainEmitter final : public Xbyak::CodeGenerator {
 public:
  /// Vector registers for values; two more are for steps of several instructions, one for an
  /// invariant or a literal that has to be loaded.
  static constexpr int kPlanRegisters = 13;
  static constexpr std::size_t kMostMovingSlots = 13;

  explicit ChainEmitter(std::span<std::uint8_t> buffer);
  /// In the buffer, until the next call. Throws Xbyak::Error where it is too small.
  std::span<const std::uint8_t> emit(const ChainCode& code);

 private:
  using Address = Xbyak::Address;
  using Operand = Xbyak::Operand;
  using Reg64 = Xbyak::Reg64;
  using Ymm = Xbyak::Ymm;

  static constexpr int kLanes = 8;  // of a register
  static constexpr int kRegisterBytes = 32;
  static constexpr int kPointerBytes = 8;
  static constexpr int kLoaded = 15;
  static constexpr std::uint8_t kHalfToNearest = 0;

  void place_slots();
  void emit_entry();
  void emit_rows();
  void prefetch_inputs();
  void emit_exit();
  void emit_literals();
  void emit_action(const RegisterAction& action);

  Address literal(std::uint32_t bits) { return ptr[rip + literals_[bits]]; }
  Address rows_left() { return qword[rsp + places_bytes_]; }
  Address row_steps() { return qword[rsp + places_bytes_ + kPointerBytes]; }
  Ymm reg(int number) const { return Ymm(number * code_.unroll + lane_); }
  Reg64 pointer(int slot) const;
  Address lanes_of(int slot) { return ptr[pointer(slot) + index_ * 4 + lane_ * kRegisterBytes]; }
  Address half_lanes_of(int slot) {
    return ptr[pointer(slot) + index_ * 2 + lane_ * kRegisterBytes / 2];
  }
  Address stack_place(int place) { return ptr[rsp + place * kRegisterBytes]; }

  /// These ask about an operand of the current step. `in_register` may take the register of the
  /// one before.
  Ymm in_register(int k);
  bool is_on_stack(int k) const;
  bool is_literal(int k) const {
    return operands_[static_cast<std::size_t>(k)].kind == OperandPlace::Kind::Literal;
  }
  bool is_in_memory(int k) const;
  /// In memory if it is there; the instruction has this one operand that may be.
  template <class Body>
  void with_source(int k, const Body& body) {
    const OperandPlace& place = operands_[static_cast<std::size_t>(k)];
    if (place.kind == OperandPlace::Kind::Memory) return body(lanes_of(place.index));
    if (is_literal(k) && !memory_is_used_) return body(literal(literal_));
    if (is_on_stack(k) && !memory_is_used_) {
      return body(stack_place(invariant_places_.at(place.index)));
    }
    body(in_register(k));
  }
  /// The operand that may come from memory is the second.
  template <class Body>
  void commutative(const Body& body) {
    const bool swapped = is_in_memory(0) && !is_in_memory(1);
    const Ymm first = in_register(swapped ? 1 : 0);
    with_source(swapped ? 0 : 1, [&](const Operand& second) { body(first, second); });
  }
  template <class Body>
  void ordered(const Body& body) {
    const Ymm first = in_register(0);
    with_source(1, [&](const Operand& second) { body(first, second); });
  }
  /// body(operand 1, operand 0).
  template <class Body>
  void reversed(const Body& body) {
    const Ymm first = in_register(1);
    with_source(0, [&](const Operand& second) { body(first, second); });
  }

  void compute(ChainOp op, const Ymm& to);
  void compute_float(ChainOp op, const Ymm& to);
  void compute_integer(ChainOp op, const Ymm& to);
  void extreme(bool largest, const Ymm& to);
  void extreme_of_any(bool largest, const Ymm& to);
  void sign(const Ymm& to);
  void float_to_int(const Ymm& to);
  void fused_multiply_add(const Ymm& to);
  void select(const Ymm& to);
  void select_negative(const Ymm& to);

  const Ymm first_temporary_{13}, second_temporary_{14};
  const Reg64 index_ = rdi, end_ = rsi;
  ChainCode code_;
  std::map<int, int> invariant_registers_, invariant_places_;  // by slot
  std::map<std::uint32_t, Xbyak::Label> literals_;
  int places_bytes_ = 0, frame_bytes_ = 0;
  int lane_ = 0;  // which of the registers side by side
  // These belong to the current step.
  std::array<OperandPlace, 3> operands_ = {};
  std::uint32_t literal_ = 0;
  bool memory_is_used_ = false;
};

}  // namespace pando::cpu

#endif
