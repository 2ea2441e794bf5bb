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
  const Ymm first_temporary_{ChainPlaces::kFirstTemporary};
  const Ymm second_temporary_{ChainPlaces::kSecondTemporary};
};

}  // namespace pando::cpu

#endif
