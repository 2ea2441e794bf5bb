#include "pando/backends/cpu/fused/uniform_division.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>

#include "pando/base/float_state.hpp"

namespace pando::cpu {
namespace {

constexpr std::uint32_t kSignBit = 0x80000000U;
constexpr std::uint32_t kTwo = 0x40000000U;        // the highest bit of an exponent
constexpr std::uint32_t kScaleUp = 0x5f800000U;    // 2^64; without the bit of kTwo 2^-64
constexpr std::uint32_t kScaleBack = 0x9f800000U;  // -2^-64; with the bit of kTwo -2^64
constexpr float kMore = 0x1p100f;                  // than any remainder
constexpr float kLeastDivisor = 0x1p-60f, kMostDivisor = 0x1p60f;

int add_node(NodeGraph& graph, ChainOp op, int a, int b = -1) {
  Node node;
  node.kind = Node::Kind::Chain;
  node.chain = op;
  node.operands = {a, b, -1};
  node.uniform = true;
  for (int operand : node.operands) {
    if (operand >= 0) ++graph.nodes[static_cast<std::size_t>(operand)].uses;
  }
  node.uses = 1;
  graph.nodes.push_back(node);
  return static_cast<int>(graph.nodes.size()) - 1;
}

int add_constant(NodeGraph& graph, std::uint32_t bits) {
  const std::pair<std::uint64_t, std::size_t> entry{bits, sizeof bits};
  const auto it = std::find(graph.constants.begin(), graph.constants.end(), entry);
  Node node;
  node.kind = Node::Kind::Constant;
  node.index = static_cast<int>(it - graph.constants.begin());
  node.uniform = true;
  if (it == graph.constants.end()) graph.constants.push_back(entry);
  graph.nodes.push_back(node);
  return static_cast<int>(graph.nodes.size()) - 1;
}

UniformDivision division_by(NodeGraph& graph, int divisor) {
  UniformDivision made;
  made.divisor = divisor;
  made.magnitude = add_node(graph, ChainOp::AbsF, divisor);
  ++graph.nodes[static_cast<std::size_t>(made.magnitude)].uses;
  const int minus_one = add_constant(graph, std::bit_cast<std::uint32_t>(-1.0f));
  made.reciprocal = add_node(graph, ChainOp::DivF, minus_one, made.magnitude);
  const int sign = add_node(graph, ChainOp::AndI, divisor, add_constant(graph, kSignBit));
  made.scale = add_node(graph, ChainOp::OrI, sign, add_constant(graph, kScaleUp));
  return made;
}

}  // namespace

void prepare_uniform_divisions(NodeGraph& graph) {
  const int count = static_cast<int>(graph.nodes.size());
  for (int i = 0; i < count; ++i) {
    const Node n = graph.nodes[static_cast<std::size_t>(i)];
    const bool divides = n.kind == Node::Kind::Chain && n.chain == ChainOp::DivF && n.uses > 0;
    if (!divides || n.uniform) continue;
    const int divisor = n.operands[1];
    if (!graph.nodes[static_cast<std::size_t>(divisor)].uniform) continue;
    auto& known = graph.uniform_divisions;
    const auto same = std::find_if(known.begin(), known.end(), [&](const UniformDivision& other) {
      return other.divisor == divisor;
    });
    UniformDivision made = same != known.end() ? *same : division_by(graph, divisor);
    made.node = i;
    known.push_back(made);
  }
}

const UniformDivision* uniform_division(const NodeGraph& graph, int node) {
  const auto& all = graph.uniform_divisions;
  const auto it = std::find_if(all.begin(), all.end(),
                               [&](const UniformDivision& each) { return each.node == node; });
  return it == all.end() ? nullptr : &*it;
}

// With y = 1 / c rounded, q = a * y, r = a - c * q and q + r * y is the rounded quotient
// (Markstein, 1990) as long as nothing over- or underflows: so a is first brought nearer to 1, by
// 2^64 below 2 and by 2^-64 from there on, and the quotient back. An infinite a has no remainder;
// it gets a number for one. y and q are negative here, which gives a zero its sign.
int append_quotient(int dividend, const DivisorBlocks& divisor, std::vector<ChainStep>& steps) {
  const auto add = [&](ChainOp op, int a, int b, int c = kNoOperand, std::uint32_t literal = 0) {
    steps.push_back({.op = op, .operands = {a, b, c}, .literal = literal});
    return static_cast<int>(steps.size()) - 1;
  };
  const int is_large = add(ChainOp::AndI, dividend, kLiteral, kNoOperand, kTwo);
  const int scale = add(ChainOp::XorI, is_large, divisor.scale);
  const int a = add(ChainOp::MulF, dividend, scale);
  const int q = add(ChainOp::MulF, a, divisor.reciprocal);
  const int remainder = add(ChainOp::FmaF, q, divisor.magnitude, a);
  const int r = add(ChainOp::MinNumberF, kLiteral, remainder, kNoOperand,
                    std::bit_cast<std::uint32_t>(kMore));
  const int quotient = add(ChainOp::FmaF, r, divisor.reciprocal, q);
  const int back = add(ChainOp::XorI, is_large, kLiteral, kNoOperand, kScaleBack);
  return add(ChainOp::MulF, quotient, back);
}

bool allows_products(float magnitude) {
  return FloatState::current().flushes_denormals() && magnitude >= kLeastDivisor &&
         magnitude <= kMostDivisor;
}

}  // namespace pando::cpu
