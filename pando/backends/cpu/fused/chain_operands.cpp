#include "pando/backends/cpu/fused/chain_operands.hpp"

#if defined(__x86_64__)

#include <algorithm>

#include "pando/base/error.hpp"

namespace pando::cpu {

void ChainOperands::begin(const std::array<OperandPlace, 3>& operands) {
  operands_ = operands;
  memory_is_used_ = std::any_of(operands_.begin(), operands_.end(), [](const OperandPlace& place) {
    return place.kind == OperandPlace::Kind::Memory;
  });
}

Xbyak::Ymm ChainOperands::in_register(int k) {
  const OperandPlace& place = operands_[static_cast<std::size_t>(k)];
  const Ymm loaded = places_.registers().loaded();
  if (place.kind == OperandPlace::Kind::Register) return places_.reg(place.index);
  if (place.kind == OperandPlace::Kind::Literal) {
    if (const auto reg = places_.literal_register(place.bits)) return *reg;
    places_.literals().load(place.bits, loaded);
    return loaded;
  }
  internal_check(place.kind == OperandPlace::Kind::Invariant, "a chain operand is in no register");
  if (const auto reg = places_.invariant_register(place.index)) return *reg;
  code_.vmovups(loaded, places_.invariant_place(place.index));
  return loaded;
}

void ChainOperands::move(int k, const Ymm& to) {
  const OperandPlace& place = operands_[static_cast<std::size_t>(k)];
  if (is_far_literal(k)) return places_.literals().load(place.bits, to);
  with_source(k, [&](const Operand& from) { code_.vmovups(to, from); });
}

bool ChainOperands::is_in(int k, const Ymm& reg) const {
  const OperandPlace& place = operands_[static_cast<std::size_t>(k)];
  return place.kind == OperandPlace::Kind::Register && places_.reg(place.index) == reg;
}

bool ChainOperands::is_on_stack(int k) const {
  const OperandPlace& place = operands_[static_cast<std::size_t>(k)];
  return place.kind == OperandPlace::Kind::Invariant && !places_.invariant_register(place.index);
}

bool ChainOperands::is_far_literal(int k) const {
  const OperandPlace& place = operands_[static_cast<std::size_t>(k)];
  return place.kind == OperandPlace::Kind::Literal && !places_.literal_register(place.bits);
}

bool ChainOperands::is_in_memory(int k) const {
  return operands_[static_cast<std::size_t>(k)].kind == OperandPlace::Kind::Memory ||
         ((is_on_stack(k) || is_far_literal(k)) && !memory_is_used_);
}

}  // namespace pando::cpu

#endif
