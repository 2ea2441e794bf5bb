#include "pando/backends/cpu/fused/chain_functions.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>

#include "pando/backends/cpu/exp_constants.hpp"
#include "pando/backends/cpu/fused/body_writer.hpp"
#include "pando/backends/cpu/fused/uniform_division.hpp"

namespace pando::cpu {
namespace {

bool is_sigmoid(const FusedOp& op) {
  return op.kind == FusedOp::Kind::Tile && op.op == ScalarOp::Sigmoid && op.lane_bytes == 4;
}

/// ExpNonPositive (exp-inl.h).
int append_exp_non_positive(BodyWriter& writer, int x) {
  using namespace exp_constants;
  const auto number = [&](float value) { return writer.constant(value); };
  const int bounded = writer.add(ChainOp::MaxNumberF, x, number(kLowest));
  const int shift = number(kShift);
  const int shifted = writer.add(ChainOp::FmaF, bounded, number(kLog2E), shift);
  const int n = writer.add(ChainOp::SubF, shifted, shift);
  const int high = writer.add(ChainOp::FmaF, n, number(kMinusLn2High), bounded);
  const int r = writer.add(ChainOp::FmaF, n, number(kMinusLn2Low), high);
  int p = number(kPolynomial[0]);
  for (std::size_t i = 1; i < std::size(kPolynomial); ++i) {
    p = writer.add(ChainOp::FmaF, p, r, number(kPolynomial[i]));
  }
  const int rest = writer.add(ChainOp::FmaF, writer.add(ChainOp::Square, r), p, r);
  const int e = writer.add(ChainOp::AddF, rest, number(1.0f));
  return writer.add(ChainOp::MulF, e, writer.add(ChainOp::ShiftToExponent, shifted));
}

/// SigmoidOf (exp-inl.h).
void write_sigmoid(BodyWriter& writer, int id, int x) {
  const int one = writer.constant(1.0f);
  const int negative = writer.add(ChainOp::OrI, x, writer.bits(kSignBit));
  const int e = append_exp_non_positive(writer, negative);
  const int numerator = writer.add(ChainOp::SelectNegativeF, x, e, one);
  writer.replace(id, ChainOp::DivF, numerator, writer.add(ChainOp::AddF, e, one));
}

}  // namespace

bool is_chain(const FusedProgram& program) {
  return std::all_of(program.ops.begin(), program.ops.end(), [](const FusedOp& op) {
    if (op.kind == FusedOp::Kind::StoreTile) return false;
    if (op.kind == FusedOp::Kind::StoreRaw) return op.lane_bytes == 4;
    return op.kind != FusedOp::Kind::Tile || op.uniform || op.uses == 0 || is_sigmoid(op);
  });
}

void write_out_functions(FusedProgram& program) {
  BodyWriter writer(program);
  for (int id : program.body) {
    const std::array<int, 3> operands = program.op(id).operands;
    if (is_sigmoid(program.op(id))) {
      write_sigmoid(writer, id, operands[0]);
    } else if (const UniformDivision* division = uniform_division(program, id)) {
      write_quotient(writer, *division, operands[0]);
    } else {
      writer.keep(id);
    }
  }
  program.body = writer.take();
}

}  // namespace pando::cpu
