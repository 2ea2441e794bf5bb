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

  static constexpr std::uint8_t kHalfToNearest = 0;

  ChainEncoder(Xbyak::CodeGenerator& code, ChainPlaces& places, ChainOperands& operands)
      : code_(code), places_(places), operands_(operands) {}

  /// `op` of the operands of the current op. Throws InternalError for an op that only the
  /// micro-ops have.
  void encode(ChainOp op, const Ymm& to);

 private:
  void encode_float(ChainOp op, const Ymm& to);
  void encode_integer(ChainOp op, const Ymm& to);
  void extreme(bool largest, const Ymm& to);
  void extreme_of_any(bool largest, const Ymm& to);
  void sign(const Ymm& to);
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
