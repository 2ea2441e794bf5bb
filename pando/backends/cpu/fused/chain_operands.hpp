// The operands of one op of a chain, as those of instructions.
#pragma once

#if defined(__x86_64__)

#include <array>
#include <cstddef>

#include "pando/backends/cpu/fused/chain_places.hpp"

namespace pando::cpu {

/// An instruction may read one operand from memory: what the op finds there, else an invariant on
/// the stack or a literal.
class ChainOperands {
 public:
  using Operand = Xbyak::Operand;
  using Ymm = Xbyak::Ymm;

  ChainOperands(Xbyak::CodeGenerator& code, ChainPlaces& places) : code_(code), places_(places) {}

  /// The operands of another op.
  void begin(const std::array<OperandPlace, 3>& operands);

  /// May take the register of the one that was asked for before.
  Ymm in_register(int k);
  void move(int k, const Ymm& to);
  bool is_in(int k, const Ymm& reg) const;
  /// Whether with_source() gives it in memory.
  bool is_in_memory(int k) const;
  /// Operand 0 of an op that reads a slot whose lanes have two bytes.
  Xbyak::Address half_lanes() const { return places_.half_lanes_of(operands_[0].index); }

  /// In memory if it is there; the instruction has this one operand that may be.
  template <class Body>
  void with_source(int k, const Body& body) {
    const OperandPlace& place = operands_[static_cast<std::size_t>(k)];
    if (place.kind == OperandPlace::Kind::Memory) return body(places_.lanes_of(place.index));
    if (is_far_literal(k) && !memory_is_used_) return body(places_.literals().operand(place.bits));
    if (is_on_stack(k) && !memory_is_used_) return body(places_.invariant_place(place.index));
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

 private:
  bool is_on_stack(int k) const;
  /// Behind the code, in no register.
  bool is_far_literal(int k) const;

  Xbyak::CodeGenerator& code_;
  ChainPlaces& places_;
  std::array<OperandPlace, 3> operands_ = {};
  bool memory_is_used_ = false;
};

}  // namespace pando::cpu

#endif
