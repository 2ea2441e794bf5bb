// The instructions of each chain op.
#pragma once

#if defined(__x86_64__)

#include <cstdint>

#include "pando/backends/cpu/fused/chain_operands.hpp"

namespace pando::cpu {

class ChainEncoder {
 public:
  using Operand = Xbyak::Operand;
  using Ymm = Xbyak::Ymm;

  ChainEncoder(Xbyak::CodeGenerator& code, ChainPlaces& places, ChainOperands& operands)
      : code_(code), places_(places), operands_(operands) {}

  /// `op` of the operands of the current op. Throws InternalError for an op that only the
  /// micro-ops have.
  void encode(ChainOp op, const Ymm& to);
  /// Rounds `value` to `format`, Float16 or BFloat16. `to`: a lane has two bytes.
  void store(DType format, const Ymm& value, const Xbyak::Address& to);

 private:
  const VectorRegisters& registers() const { return places_.registers(); }
  ChainLiterals& literals() { return places_.literals(); }
  Ymm first_temporary() const { return registers().first_temporary(); }
  Ymm second_temporary() const { return registers().second_temporary(); }

  // Which lanes these are about is in `mask` for 256 bits, and in k1 for 512.
  /// `comparison`: the immediate of VCMPPS.
  void compare(const Ymm& mask, const Ymm& a, const Operand& b, std::uint8_t comparison);
  void compare_equal(const Ymm& mask, const Ymm& a, const Operand& b);    // int32
  void compare_greater(const Ymm& mask, const Ymm& a, const Operand& b);  // int32
  /// The lanes of `value`, or `bits`, in those lanes, and 0 elsewhere.
  void keep(const Ymm& to, const Ymm& mask, const Ymm& value);
  void keep(const Ymm& to, const Ymm& mask, std::uint32_t bits);
  /// 0 in those lanes, and `bits` elsewhere. Changes which lanes these are.
  void keep_others(const Ymm& to, const Ymm& mask, std::uint32_t bits);
  /// `value` in those lanes, and `others` elsewhere.
  void blend(const Ymm& to, const Ymm& mask, const Ymm& others, const Operand& value);

  void set_to_zero(const Ymm& to);
  void encode_float(ChainOp op, const Ymm& to);
  void encode_integer(ChainOp op, const Ymm& to);
  void extreme(bool largest, const Ymm& to);
  void extreme_of_any(bool largest, const Ymm& to);
  void sign(const Ymm& to);
  /// The bits of bfloat16 in the upper halves of the lanes. `to` may be the first temporary, not
  /// the second.
  void round_bfloat16(const Ymm& to, const Ymm& value);
  void float_to_int(const Ymm& to);
  void fused_multiply_add(const Ymm& to);
  void select(const Ymm& to);
  void select_negative(const Ymm& to);

  Xbyak::CodeGenerator& code_;
  ChainPlaces& places_;
  ChainOperands& operands_;
};

}  // namespace pando::cpu

#endif
