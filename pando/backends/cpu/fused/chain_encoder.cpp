#include "pando/backends/cpu/fused/chain_encoder.hpp"

#if defined(__x86_64__)

#include "pando/backends/cpu/exp_constants.hpp"
#include "pando/backends/cpu/fused/uniform_division.hpp"
#include "pando/base/error.hpp"

// Each op rounds, and treats NaN, as its micro-op (chain_ops.cpp).
namespace pando::cpu {
namespace {

using Xbyak::Operand;
using Xbyak::Xmm;
using Xbyak::Ymm;
using Xbyak::util::k1;
using Xbyak::util::T_z;

enum Comparison : std::uint8_t {
  kEqual = 0,
  kUnordered = 3,
  kOrdered = 7,
  kLess = 17,
  kLessEqual = 18,
  kGreater = 30
};
constexpr std::uint8_t kHalfToNearest = 0;
enum Rounding : std::uint8_t { kNearest = 8, kDown = 9, kUp = 10 };

constexpr std::uint32_t kMagnitudeBits = 0x7fffffffU;
constexpr std::uint32_t kInfinityBits = 0x7f800000U;
constexpr std::uint32_t kOne = 0x3f800000U, kMinusOne = 0xbf800000U;

}  // namespace

void ChainEncoder::encode(ChainOp op, const Ymm& to) {
  switch (op) {
    case ChainOp::Move:
      return operands_.move(0, to);
    case ChainOp::LoadHalf:
      return code_.vcvtph2ps(to, operands_.half_lanes());
    case ChainOp::RoundHalf:
      code_.vcvtps2ph(registers().half_of(first_temporary()), operands_.in_register(0),
                      kHalfToNearest);
      return code_.vcvtph2ps(to, registers().half_of(first_temporary()));
    case ChainOp::LoadBFloat16:
      code_.vpmovzxwd(to, operands_.half_lanes());
      return code_.vpslld(to, to, 16);
    case ChainOp::RoundBFloat16:
      round_bfloat16(first_temporary(), operands_.in_register(0));
      return code_.vandps(to, first_temporary(), literals().operand(0xffff0000U));
    case ChainOp::FloatToInt:
      return float_to_int(to);
    case ChainOp::IntToFloat:
      return operands_.with_source(0, [&](const Operand& a) { code_.vcvtdq2ps(to, a); });
    case ChainOp::NegI:
      set_to_zero(first_temporary());
      return code_.vpsubd(to, first_temporary(), operands_.in_register(0));
    case ChainOp::AbsI:
      return code_.vpabsd(to, operands_.in_register(0));
    case ChainOp::FmaF:
      return fused_multiply_add(to);
    case ChainOp::SelectI:
      return select(to);
    case ChainOp::SelectNegativeF:
      return select_negative(to);
    case ChainOp::ShiftToExponent:
      return code_.vpslld(to, operands_.in_register(0), exp_constants::kMantissaBits);
    case ChainOp::MantissaF:
      return operands_.with_source(0, [&](const Operand& a) { code_.vgetmantps(to, a, 0); });
    case ChainOp::ExponentF:
      return operands_.with_source(0, [&](const Operand& a) { code_.vgetexpps(to, a); });
    case ChainOp::ScaleF:
      return operands_.ordered([&](const Ymm& a, const Operand& b) { code_.vscalefps(to, a, b); });
    case ChainOp::SignF:
      return sign(to);
    default:
      break;
  }
  if (op >= ChainOp::AddI && op <= ChainOp::XorI) return encode_integer(op, to);
  encode_float(op, to);
}

void ChainEncoder::store(DType format, const Ymm& value, const Xbyak::Address& to) {
  if (format == DType::Float16) return code_.vcvtps2ph(to, value, kHalfToNearest);
  const Ymm bits = first_temporary();
  round_bfloat16(bits, value);
  code_.vpsrld(bits, bits, 16);
  if (registers().is_wide()) return code_.vpmovdw(to, bits);
  code_.vpackusdw(bits, bits, bits);  // of each half of the register
  code_.vpermq(bits, bits, 0b1000);   // quarters 0 and 2
  code_.vmovdqu(to, Xmm(bits.getIdx()));
}

/// Rounds to nearest even, as BFloat16Vectors (cpu/half-inl.h).
void ChainEncoder::round_bfloat16(const Ymm& to, const Ymm& value) {
  const Ymm mask = second_temporary();
  code_.vpsrld(to, value, 16);
  code_.vandps(to, to, literals().operand(1));
  code_.vpaddd(to, to, literals().operand(0x7fffU));
  compare(mask, value, value, kOrdered);
  keep(to, mask, to);
  code_.vpaddd(to, to, value);
  keep_others(mask, mask, 0x400000U);
  code_.vorps(to, to, mask);
}

void ChainEncoder::set_to_zero(const Ymm& to) { code_.vxorps(to, to, to); }

void ChainEncoder::compare(const Ymm& mask, const Ymm& a, const Operand& b,
                           std::uint8_t comparison) {
  registers().is_wide() ? code_.vcmpps(k1, a, b, comparison) : code_.vcmpps(mask, a, b, comparison);
}

void ChainEncoder::compare_equal(const Ymm& mask, const Ymm& a, const Operand& b) {
  registers().is_wide() ? code_.vpcmpeqd(k1, a, b) : code_.vpcmpeqd(mask, a, b);
}

void ChainEncoder::compare_greater(const Ymm& mask, const Ymm& a, const Operand& b) {
  registers().is_wide() ? code_.vpcmpgtd(k1, a, b) : code_.vpcmpgtd(mask, a, b);
}

void ChainEncoder::keep(const Ymm& to, const Ymm& mask, const Ymm& value) {
  registers().is_wide() ? code_.vmovaps(to | k1 | T_z, value) : code_.vandps(to, mask, value);
}

void ChainEncoder::keep(const Ymm& to, const Ymm& mask, std::uint32_t bits) {
  registers().is_wide() ? code_.vbroadcastss(to | k1 | T_z, literals().lane(bits))
                        : code_.vandps(to, mask, literals().operand(bits));
}

void ChainEncoder::keep_others(const Ymm& to, const Ymm& mask, std::uint32_t bits) {
  if (!registers().is_wide()) return code_.vandnps(to, mask, literals().operand(bits));
  code_.knotw(k1, k1);
  keep(to, mask, bits);
}

void ChainEncoder::blend(const Ymm& to, const Ymm& mask, const Ymm& others, const Operand& value) {
  registers().is_wide() ? code_.vblendmps(to | k1, others, value)
                        : code_.vblendvps(to, others, value, mask);
}

void ChainEncoder::encode_float(ChainOp op, const Ymm& to) {
  const Ymm t = first_temporary();
  const auto is = [&](const Ymm& a, const Operand& b, Comparison comparison) {
    compare(t, a, b, comparison);
    keep(to, t, 1);
  };
  const auto round = [&](Rounding rounding) {
    operands_.with_source(0, [&](const Operand& a) {
      registers().is_wide() ? code_.vrndscaleps(to, a, rounding) : code_.vroundps(to, a, rounding);
    });
  };
  switch (op) {
    case ChainOp::Square:
      return code_.vmulps(to, operands_.in_register(0), operands_.in_register(0));
    case ChainOp::NegF:
      return code_.vxorps(to, operands_.in_register(0), literals().operand(kSignBit));
    case ChainOp::AbsF:
      return code_.vandps(to, operands_.in_register(0), literals().operand(kMagnitudeBits));
    case ChainOp::SqrtF:
      return operands_.with_source(0, [&](const Operand& a) { code_.vsqrtps(to, a); });
    case ChainOp::FloorF:
      return round(kDown);
    case ChainOp::CeilF:
      return round(kUp);
    case ChainOp::RoundEvenF:
      return round(kNearest);
    case ChainOp::IsNanF:
      return is(operands_.in_register(0), operands_.in_register(0), kUnordered);
    case ChainOp::IsInfF:
      code_.vandps(t, operands_.in_register(0), literals().operand(kMagnitudeBits));
      compare_equal(t, t, literals().operand(kInfinityBits));
      return keep(to, t, 1);
    case ChainOp::AddF:
      return operands_.commutative([&](const Ymm& a, const Operand& b) { code_.vaddps(to, a, b); });
    case ChainOp::MulF:
      return operands_.commutative([&](const Ymm& a, const Operand& b) { code_.vmulps(to, a, b); });
    case ChainOp::SubF:
      return operands_.ordered([&](const Ymm& a, const Operand& b) { code_.vsubps(to, a, b); });
    case ChainOp::DivF:
      return operands_.ordered([&](const Ymm& a, const Operand& b) { code_.vdivps(to, a, b); });
    case ChainOp::EqualF:
      return operands_.commutative([&](const Ymm& a, const Operand& b) { is(a, b, kEqual); });
    case ChainOp::LessF:
      return operands_.ordered([&](const Ymm& a, const Operand& b) { is(a, b, kLess); });
    case ChainOp::LessEqualF:
      return operands_.ordered([&](const Ymm& a, const Operand& b) { is(a, b, kLessEqual); });
    case ChainOp::MinNumberF:
    case ChainOp::MaxNumberF:
      return extreme(op == ChainOp::MaxNumberF, to);
    case ChainOp::MinF:
    case ChainOp::MaxF:
      return extreme_of_any(op == ChainOp::MaxF, to);
    default:
      throw InternalError(str_cat("no machine code for chain op ", chain_facts(op).name));
  }
}

/// The instruction gives its second operand for NaN: operand 0 that way, whatever operand 1 is.
void ChainEncoder::extreme(bool largest, const Ymm& to) {
  operands_.reversed([&](const Ymm& b, const Operand& a) {
    largest ? code_.vmaxps(to, b, a) : code_.vminps(to, b, a);
  });
}

void ChainEncoder::extreme_of_any(bool largest, const Ymm& to) {
  extreme(largest, second_temporary());
  const Ymm b = operands_.in_register(1);
  compare(first_temporary(), b, b, kUnordered);
  blend(to, first_temporary(), second_temporary(), b);
}

void ChainEncoder::encode_integer(ChainOp op, const Ymm& to) {
  const Ymm t = first_temporary();
  switch (op) {
    case ChainOp::AddI:
      return operands_.commutative([&](const Ymm& a, const Operand& b) { code_.vpaddd(to, a, b); });
    case ChainOp::SubI:
      return operands_.ordered([&](const Ymm& a, const Operand& b) { code_.vpsubd(to, a, b); });
    case ChainOp::MulI:
      return operands_.commutative(
          [&](const Ymm& a, const Operand& b) { code_.vpmulld(to, a, b); });
    case ChainOp::MinI:
      return operands_.commutative(
          [&](const Ymm& a, const Operand& b) { code_.vpminsd(to, a, b); });
    case ChainOp::MaxI:
      return operands_.commutative(
          [&](const Ymm& a, const Operand& b) { code_.vpmaxsd(to, a, b); });
    case ChainOp::AndI:
      return operands_.commutative([&](const Ymm& a, const Operand& b) { code_.vandps(to, a, b); });
    case ChainOp::OrI:
      return operands_.commutative([&](const Ymm& a, const Operand& b) { code_.vorps(to, a, b); });
    case ChainOp::XorI:
      return operands_.commutative([&](const Ymm& a, const Operand& b) { code_.vxorps(to, a, b); });
    case ChainOp::EqualI:
      operands_.commutative([&](const Ymm& a, const Operand& b) { compare_equal(t, a, b); });
      return keep(to, t, 1);
    case ChainOp::LessI:
      operands_.reversed([&](const Ymm& b, const Operand& a) { compare_greater(t, b, a); });
      return keep(to, t, 1);
    case ChainOp::LessEqualI:
      operands_.ordered([&](const Ymm& a, const Operand& b) { compare_greater(t, a, b); });
      return keep_others(to, t, 1);
    default:
      throw InternalError(str_cat("no machine code for chain op ", chain_facts(op).name));
  }
}

void ChainEncoder::sign(const Ymm& to) {
  const Ymm t = first_temporary(), s = second_temporary();
  const Ymm a = operands_.in_register(0);
  compare(t, a, literals().operand(0), kGreater);
  keep(s, t, kOne);
  compare(t, a, literals().operand(0), kLess);
  keep(t, t, kMinusOne);
  code_.vorps(s, s, t);
  compare(t, a, a, kUnordered);
  blend(to, t, s, a);
}

/// Toward zero; the instruction gives the smallest integer for what is too large, which becomes the
/// largest one, and for NaN, which becomes 0.
void ChainEncoder::float_to_int(const Ymm& to) {
  const Ymm t = first_temporary(), s = second_temporary();
  const Ymm a = operands_.in_register(0);
  code_.vcvttps2dq(s, a);
  code_.vandnps(t, a, s);
  code_.vpsrad(t, t, 31);
  code_.vxorps(s, s, t);
  compare(t, a, a, kOrdered);
  keep(to, t, s);
}

void ChainEncoder::fused_multiply_add(const Ymm& to) {
  const auto is_result = [&](int k) { return operands_.is_in(k, to); };
  const Ymm sum = is_result(1) || is_result(2) ? first_temporary() : to;
  if (!is_result(0) || sum != to) code_.vmovaps(sum, operands_.in_register(0));
  if (operands_.is_in_memory(1) && !operands_.is_in_memory(2)) {
    const Ymm c = operands_.in_register(2);
    operands_.with_source(1, [&](const Operand& b) { code_.vfmadd132ps(sum, c, b); });
  } else {
    const Ymm b = operands_.in_register(1);
    operands_.with_source(2, [&](const Operand& c) { code_.vfmadd213ps(sum, b, c); });
  }
  if (sum != to) code_.vmovaps(to, sum);
}

void ChainEncoder::select(const Ymm& to) {
  const Ymm is_zero = first_temporary();
  set_to_zero(is_zero);
  compare_equal(is_zero, is_zero, operands_.in_register(0));
  const Ymm b = operands_.in_register(1);
  operands_.with_source(2, [&](const Operand& c) { blend(to, is_zero, b, c); });
}

void ChainEncoder::select_negative(const Ymm& to) {
  const Ymm others = first_temporary();
  operands_.move(2, others);
  const Ymm sign = operands_.in_register(0);
  if (registers().is_wide()) code_.vpmovd2m(k1, sign);
  operands_.with_source(1, [&](const Operand& b) { blend(to, sign, others, b); });
}

}  // namespace pando::cpu

#endif
