#include "pando/backends/cpu/fused/chain_functions.hpp"

#include <bit>
#include <cstdint>
#include <iterator>

#include "pando/backends/cpu/exp_constants.hpp"

namespace pando::cpu {
namespace {

class FunctionSteps {
 public:
  explicit FunctionSteps(std::vector<ChainStep>& steps) : steps_(steps) {}

  /// SigmoidOf (exp-inl.h).
  int sigmoid(int x) {
    const int e = exp_non_positive(with_bits(ChainOp::OrI, {x, kLiteral}, kSignBit));
    const int numerator = with(ChainOp::SelectNegativeF, {x, e, kLiteral}, 1.0f);
    return add(ChainOp::DivF, {numerator, with(ChainOp::AddF, {e, kLiteral}, 1.0f)});
  }

 private:
  static constexpr std::uint32_t kSignBit = 0x80000000U;

  /// ExpNonPositive (exp-inl.h).
  int exp_non_positive(int x) {
    using namespace exp_constants;
    const int bounded = with(ChainOp::MaxNumberF, {x, kLiteral}, kLowest);
    const int shift = with(ChainOp::Move, {kLiteral}, kShift);
    const int shifted = with(ChainOp::FmaF, {bounded, kLiteral, shift}, kLog2E);
    const int n = add(ChainOp::SubF, {shifted, shift});
    const int high = with(ChainOp::FmaF, {n, kLiteral, bounded}, kMinusLn2High);
    const int r = with(ChainOp::FmaF, {n, kLiteral, high}, kMinusLn2Low);
    int p = with(ChainOp::Move, {kLiteral}, kPolynomial[0]);
    for (std::size_t i = 1; i < std::size(kPolynomial); ++i) {
      p = with(ChainOp::FmaF, {p, r, kLiteral}, kPolynomial[i]);
    }
    const int rest = add(ChainOp::FmaF, {add(ChainOp::Square, {r}), p, r});
    const int e = with(ChainOp::AddF, {rest, kLiteral}, 1.0f);
    return add(ChainOp::MulF, {e, add(ChainOp::ShiftToExponent, {shifted})});
  }

  struct Operands {
    int a = kNoOperand, b = kNoOperand, c = kNoOperand;
  };
  int add(ChainOp op, const Operands& operands) { return with_bits(op, operands, 0); }
  int with(ChainOp op, const Operands& operands, float literal) {
    return with_bits(op, operands, std::bit_cast<std::uint32_t>(literal));
  }
  int with_bits(ChainOp op, const Operands& operands, std::uint32_t literal) {
    steps_.push_back(
        {.op = op, .operands = {operands.a, operands.b, operands.c}, .literal = literal});
    return static_cast<int>(steps_.size()) - 1;
  }

  std::vector<ChainStep>& steps_;
};

}  // namespace

bool is_sigmoid(const Node& node) {
  return node.kind == Node::Kind::Tile && node.op == ScalarOp::Sigmoid && node.lane_bytes == 4;
}

int append_sigmoid(int operand, std::vector<ChainStep>& steps) {
  return FunctionSteps(steps).sigmoid(operand);
}

}  // namespace pando::cpu
