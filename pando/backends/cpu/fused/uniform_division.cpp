#include "pando/backends/cpu/fused/uniform_division.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>

#include "pando/base/float_state.hpp"

namespace pando::cpu {
namespace {

constexpr std::uint32_t kTwo = 0x40000000U;        // the highest bit of an exponent
constexpr std::uint32_t kScaleUp = 0x5f800000U;    // 2^64; without the bit of kTwo 2^-64
constexpr std::uint32_t kScaleBack = 0x9f800000U;  // -2^-64; with the bit of kTwo -2^64
constexpr float kMore = 0x1p100f;                  // than any remainder
constexpr float kLeastDivisor = 0x1p-60f, kMostDivisor = 0x1p60f;

int add_uniform(FusedProgram& program, ChainOp op, int a, int b = -1) {
  FusedOp added;
  added.kind = FusedOp::Kind::Chain;
  added.chain = op;
  added.operands = {a, b, -1};
  added.uniform = true;
  added.uses = 1;
  for (int operand : added.operands) {
    if (operand >= 0) ++program.op(operand).uses;
  }
  program.ops.push_back(added);
  return static_cast<int>(program.ops.size()) - 1;
}

UniformDivision division_by(FusedProgram& program, int divisor) {
  UniformDivision made;
  made.divisor = divisor;
  made.magnitude = add_uniform(program, ChainOp::AbsF, divisor);
  if (chain_machine().has_mantissas) {
    const int one = constant_of_bits(program, std::bit_cast<std::uint32_t>(1.0f));
    made.reciprocal = add_uniform(program, ChainOp::DivF, one, divisor);
    made.negative = add_uniform(program, ChainOp::NegF, divisor);
    return made;
  }
  ++program.op(made.magnitude).uses;
  const int minus_one = constant_of_bits(program, std::bit_cast<std::uint32_t>(-1.0f));
  made.reciprocal = add_uniform(program, ChainOp::DivF, minus_one, made.magnitude);
  const int sign =
      add_uniform(program, ChainOp::AndI, divisor, constant_of_bits(program, kSignBit));
  made.scale = add_uniform(program, ChainOp::OrI, sign, constant_of_bits(program, kScaleUp));
  return made;
}

// With y = 1 / c rounded, q = a * y, r = a - c * q and q + r * y is the rounded quotient
// (Markstein, 1990) as long as nothing over- or underflows. The mantissa of a does not, and the
// exponent of a zero or an infinity makes one of the quotient.
void write_quotient_of_mantissa(BodyWriter& writer, const UniformDivision& division, int dividend) {
  const int a = writer.add(ChainOp::MantissaF, dividend);
  const int q = writer.add(ChainOp::MulF, a, division.reciprocal);
  const int r = writer.add(ChainOp::FmaF, q, division.negative, a);
  const int quotient = writer.add(ChainOp::FmaF, r, division.reciprocal, q);
  const int exponent = writer.add(ChainOp::ExponentF, dividend);
  writer.replace(division.op, ChainOp::ScaleF, quotient, exponent);
}

// Here a is brought nearer to 1, by 2^64 below 2 and by 2^-64 from there on, and the quotient back.
// An infinite a has no remainder; it gets a number for one. y and q are negative, which gives a
// zero its sign.
void write_scaled_quotient(BodyWriter& writer, const UniformDivision& division, int dividend) {
  const auto add = [&](ChainOp op, int a, int b, int c = -1) { return writer.add(op, a, b, c); };
  const int is_large = add(ChainOp::AndI, dividend, writer.bits(kTwo));
  const int a = add(ChainOp::MulF, dividend, add(ChainOp::XorI, is_large, division.scale));
  const int q = add(ChainOp::MulF, a, division.reciprocal);
  const int remainder = add(ChainOp::FmaF, q, division.magnitude, a);
  const int r = add(ChainOp::MinNumberF, writer.constant(kMore), remainder);
  const int quotient = add(ChainOp::FmaF, r, division.reciprocal, q);
  const int back = add(ChainOp::XorI, is_large, writer.bits(kScaleBack));
  writer.replace(division.op, ChainOp::MulF, quotient, back);
}

}  // namespace

void prepare_uniform_divisions(FusedProgram& program) {
  const int count = static_cast<int>(program.ops.size());
  for (int i = 0; i < count; ++i) {
    const FusedOp n = program.op(i);
    const bool divides = n.kind == FusedOp::Kind::Chain && n.chain == ChainOp::DivF && n.uses > 0;
    if (!divides || n.uniform) continue;
    const int divisor = n.operands[1];
    if (!program.op(divisor).uniform) continue;
    auto& known = program.uniform_divisions;
    const auto same = std::find_if(known.begin(), known.end(), [&](const UniformDivision& other) {
      return other.divisor == divisor;
    });
    UniformDivision made = same != known.end() ? *same : division_by(program, divisor);
    made.op = i;
    known.push_back(made);
  }
}

const UniformDivision* uniform_division(const FusedProgram& program, int op) {
  const auto& all = program.uniform_divisions;
  const auto it = std::find_if(all.begin(), all.end(),
                               [&](const UniformDivision& each) { return each.op == op; });
  return it == all.end() ? nullptr : &*it;
}

void write_quotient(BodyWriter& writer, const UniformDivision& division, int dividend) {
  division.negative >= 0 ? write_quotient_of_mantissa(writer, division, dividend)
                         : write_scaled_quotient(writer, division, dividend);
}

bool allows_products(float magnitude) {
  return FloatState::current().flushes_denormals() && magnitude >= kLeastDivisor &&
         magnitude <= kMostDivisor;
}

}  // namespace pando::cpu
