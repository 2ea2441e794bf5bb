#include "pando/backends/cpu/exp_constants.hpp"
#include "pando/backends/cpu/fused/chain_emitter.hpp"
#include "pando/base/error.hpp"

#if defined(__x86_64__)

// Each op rounds, and treats NaN, as its micro-op (chain_ops.cpp).
namespace pando::cpu {
namespace {

using Xbyak::Operand;
using Xbyak::Xmm;
using Xbyak::Ymm;

enum Comparison : std::uint8_t {
  kEqual = 0,
  kUnordered = 3,
  kOrdered = 7,
  kLess = 17,
  kLessEqual = 18
};
enum Rounding : std::uint8_t { kNearest = 8, kDown = 9, kUp = 10 };

constexpr std::uint32_t kSignBit = 0x80000000U, kMagnitudeBits = 0x7fffffffU;
constexpr std::uint32_t kInfinityBits = 0x7f800000U;
constexpr std::uint32_t kOne = 0x3f800000U, kMinusOne = 0xbf800000U;

}  // namespace

void ChainEmitter::compute(ChainOp op, const Ymm& to) {
  switch (op) {
    case ChainOp::Move:
      return with_source(0, [&](const Operand& a) { vmovups(to, a); });
    case ChainOp::LoadHalf:
      return vcvtph2ps(to, half_lanes_of(operands_[0].index));
    case ChainOp::RoundHalf:
      vcvtps2ph(Xmm(first_temporary_.getIdx()), in_register(0), kHalfToNearest);
      return vcvtph2ps(to, Xmm(first_temporary_.getIdx()));
    case ChainOp::FloatToInt:
      return float_to_int(to);
    case ChainOp::IntToFloat:
      return with_source(0, [&](const Operand& a) { vcvtdq2ps(to, a); });
    case ChainOp::NegI:
      vpxor(first_temporary_, first_temporary_, first_temporary_);
      return vpsubd(to, first_temporary_, in_register(0));
    case ChainOp::AbsI:
      return vpabsd(to, in_register(0));
    case ChainOp::FmaF:
      return fused_multiply_add(to);
    case ChainOp::SelectI:
      return select(to);
    case ChainOp::SelectNegativeF:
      return select_negative(to);
    case ChainOp::ShiftToExponent:
      return vpslld(to, in_register(0), exp_constants::kMantissaBits);
    case ChainOp::SignF:
      return sign(to);
    default:
      break;
  }
  if (op >= ChainOp::AddI && op <= ChainOp::XorI) return compute_integer(op, to);
  compute_float(op, to);
}

void ChainEmitter::compute_float(ChainOp op, const Ymm& to) {
  const Ymm& t = first_temporary_;
  const auto compare = [&](const Ymm& a, const Operand& b, Comparison comparison) {
    vcmpps(t, a, b, comparison);
    vandps(to, t, literal(1));
  };
  const auto round = [&](Rounding rounding) {
    with_source(0, [&](const Operand& a) { vroundps(to, a, rounding); });
  };
  switch (op) {
    case ChainOp::Square:
      return vmulps(to, in_register(0), in_register(0));
    case ChainOp::NegF:
      return vxorps(to, in_register(0), literal(kSignBit));
    case ChainOp::AbsF:
      return vandps(to, in_register(0), literal(kMagnitudeBits));
    case ChainOp::SqrtF:
      return with_source(0, [&](const Operand& a) { vsqrtps(to, a); });
    case ChainOp::FloorF:
      return round(kDown);
    case ChainOp::CeilF:
      return round(kUp);
    case ChainOp::RoundEvenF:
      return round(kNearest);
    case ChainOp::IsNanF:
      return compare(in_register(0), in_register(0), kUnordered);
    case ChainOp::IsInfF:
      vandps(t, in_register(0), literal(kMagnitudeBits));
      vpcmpeqd(t, t, literal(kInfinityBits));
      return vandps(to, t, literal(1));
    case ChainOp::AddF:
      return commutative([&](const Ymm& a, const Operand& b) { vaddps(to, a, b); });
    case ChainOp::MulF:
      return commutative([&](const Ymm& a, const Operand& b) { vmulps(to, a, b); });
    case ChainOp::SubF:
      return ordered([&](const Ymm& a, const Operand& b) { vsubps(to, a, b); });
    case ChainOp::DivF:
      return ordered([&](const Ymm& a, const Operand& b) { vdivps(to, a, b); });
    case ChainOp::EqualF:
      return commutative([&](const Ymm& a, const Operand& b) { compare(a, b, kEqual); });
    case ChainOp::LessF:
      return ordered([&](const Ymm& a, const Operand& b) { compare(a, b, kLess); });
    case ChainOp::LessEqualF:
      return ordered([&](const Ymm& a, const Operand& b) { compare(a, b, kLessEqual); });
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
void ChainEmitter::extreme(bool largest, const Ymm& to) {
  reversed([&](const Ymm& b, const Operand& a) { largest ? vmaxps(to, b, a) : vminps(to, b, a); });
}

void ChainEmitter::extreme_of_any(bool largest, const Ymm& to) {
  extreme(largest, second_temporary_);
  const Ymm b = in_register(1);
  vcmpps(first_temporary_, b, b, kUnordered);
  vblendvps(to, second_temporary_, b, first_temporary_);
}

void ChainEmitter::compute_integer(ChainOp op, const Ymm& to) {
  const Ymm& t = first_temporary_;
  switch (op) {
    case ChainOp::AddI:
      return commutative([&](const Ymm& a, const Operand& b) { vpaddd(to, a, b); });
    case ChainOp::SubI:
      return ordered([&](const Ymm& a, const Operand& b) { vpsubd(to, a, b); });
    case ChainOp::MulI:
      return commutative([&](const Ymm& a, const Operand& b) { vpmulld(to, a, b); });
    case ChainOp::MinI:
      return commutative([&](const Ymm& a, const Operand& b) { vpminsd(to, a, b); });
    case ChainOp::MaxI:
      return commutative([&](const Ymm& a, const Operand& b) { vpmaxsd(to, a, b); });
    case ChainOp::AndI:
      return commutative([&](const Ymm& a, const Operand& b) { vpand(to, a, b); });
    case ChainOp::OrI:
      return commutative([&](const Ymm& a, const Operand& b) { vpor(to, a, b); });
    case ChainOp::XorI:
      return commutative([&](const Ymm& a, const Operand& b) { vpxor(to, a, b); });
    case ChainOp::EqualI:
      commutative([&](const Ymm& a, const Operand& b) { vpcmpeqd(t, a, b); });
      return vpand(to, t, literal(1));
    case ChainOp::LessI:
      reversed([&](const Ymm& b, const Operand& a) { vpcmpgtd(t, b, a); });
      return vpand(to, t, literal(1));
    case ChainOp::LessEqualI:
      ordered([&](const Ymm& a, const Operand& b) { vpcmpgtd(t, a, b); });
      return vpandn(to, t, literal(1));
    default:
      throw InternalError(str_cat("no machine code for chain op ", chain_facts(op).name));
  }
}

void ChainEmitter::sign(const Ymm& to) {
  const Ymm &t = first_temporary_, &s = second_temporary_;
  const Ymm a = in_register(0);
  vxorps(t, t, t);
  vcmpps(s, t, a, kLess);
  vandps(s, s, literal(kOne));
  vcmpps(t, a, t, kLess);
  vandps(t, t, literal(kMinusOne));
  vorps(s, s, t);
  vcmpps(t, a, a, kUnordered);
  vblendvps(to, s, a, t);
}

/// Toward zero; the instruction gives the smallest integer for what is too large, which becomes the
/// largest one, and for NaN, which becomes 0.
void ChainEmitter::float_to_int(const Ymm& to) {
  const Ymm &t = first_temporary_, &s = second_temporary_;
  const Ymm a = in_register(0);
  vcvttps2dq(s, a);
  vpandn(t, a, s);
  vpsrad(t, t, 31);
  vpxor(s, s, t);
  vcmpps(t, a, a, kOrdered);
  vpand(to, s, t);
}

void ChainEmitter::fused_multiply_add(const Ymm& to) {
  const auto is_result = [&](int k) {
    const OperandPlace& place = operands_[static_cast<std::size_t>(k)];
    return place.kind == OperandPlace::Kind::Register && reg(place.index) == to;
  };
  const Ymm sum = is_result(1) || is_result(2) ? first_temporary_ : to;
  if (!is_result(0) || sum != to) vmovaps(sum, in_register(0));
  if (is_in_memory(1) && !is_in_memory(2)) {
    const Ymm c = in_register(2);
    with_source(1, [&](const Operand& b) { vfmadd132ps(sum, c, b); });
  } else {
    const Ymm b = in_register(1);
    with_source(2, [&](const Operand& c) { vfmadd213ps(sum, b, c); });
  }
  if (sum != to) vmovaps(to, sum);
}

void ChainEmitter::select(const Ymm& to) {
  const Ymm& is_zero = first_temporary_;
  vpxor(is_zero, is_zero, is_zero);
  vpcmpeqd(is_zero, is_zero, in_register(0));
  const Ymm b = in_register(1);
  with_source(2, [&](const Operand& c) { vblendvps(to, b, c, is_zero); });
}

void ChainEmitter::select_negative(const Ymm& to) {
  with_source(2, [&](const Operand& c) { vmovups(first_temporary_, c); });
  const Ymm sign = in_register(0);
  with_source(1, [&](const Operand& b) { vblendvps(to, first_temporary_, b, sign); });
}

}  // namespace pando::cpu

#endif
