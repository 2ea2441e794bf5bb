#include <cstddef>
#include <optional>
#include <set>

#include "pando/backends/cpu/fused/fused_program.hpp"
#include "pando/backends/cpu/fused/op_order.hpp"

namespace pando::cpu {
namespace {

class Combiner {
 public:
  explicit Combiner(FusedProgram& program) : program_(program) {}

  void run() {
    for (int store : program_.stores) {
      if (node(store).kind == FusedOp::Kind::StoreHalfPrecision) {
        stored_.insert(node(store).operands[0]);
      }
    }
    for (std::size_t i = 0; i < program_.ops.size(); ++i) {
      if (program_.ops[i].uses == 0) continue;
      combine(program_.ops[i]);
      combine_unary(static_cast<int>(i));
    }
  }

 private:
  FusedOp& node(int id) { return program_.ops[static_cast<std::size_t>(id)]; }

  /// Which of the basic operations a node is, with X as operand `position`.
  static std::optional<PairPart> part(const FusedOp& node, int position) {
    if (node.kind != FusedOp::Kind::Chain) return std::nullopt;
    switch (node.chain) {
      case ChainOp::AddF:
        return PairPart::Add;
      case ChainOp::SubF:
        return position == 0 ? PairPart::Sub : PairPart::Rsub;
      case ChainOp::MulF:
        return PairPart::Mul;
      case ChainOp::DivF:
        return position == 0 ? PairPart::Div : PairPart::Rdiv;
      default:
        return std::nullopt;
    }
  }

  /// In memory anyway when the node `user` runs.
  bool in_memory(int id, const FusedOp& user) {
    const FusedOp& n = node(id);
    return n.is_block() || n.uses > 1 || (n.uniform && !user.uniform);
  }

  bool can_absorb(int id, const FusedOp& user) {
    const FusedOp& n = node(id);
    return n.kind == FusedOp::Kind::Chain && n.uses == 1 && n.uniform == user.uniform;
  }

  void combine(FusedOp& user) {
    for (int position : {0, 1}) {
      if (!part(user, position)) return;
      const int inner = user.operands[static_cast<std::size_t>(position)];
      const int other = user.operands[static_cast<std::size_t>(1 - position)];
      if (!can_absorb(inner, user)) continue;
      if (in_memory(other, user) ? make_pair(user, position, inner, other)
                                 : make_product(user, position, inner, other)) {
        node(inner).uses = 0;
        return;
      }
    }
  }

  /// `arithmetic` followed by `rounding` as one op.
  static std::optional<ChainOp> rounded_form(ChainOp arithmetic, ChainOp rounding) {
    struct Form {
      ChainOp arithmetic, rounding, both;
    };
    static constexpr Form kForms[] = {
        {ChainOp::AddF, ChainOp::RoundHalf, ChainOp::AddRoundHalf},
        {ChainOp::SubF, ChainOp::RoundHalf, ChainOp::SubRoundHalf},
        {ChainOp::MulF, ChainOp::RoundHalf, ChainOp::MulRoundHalf},
        {ChainOp::AddF, ChainOp::RoundBFloat16, ChainOp::AddRoundBFloat16},
        {ChainOp::SubF, ChainOp::RoundBFloat16, ChainOp::SubRoundBFloat16},
        {ChainOp::MulF, ChainOp::RoundBFloat16, ChainOp::MulRoundBFloat16}};
    for (const Form& form : kForms) {
      if (form.arithmetic == arithmetic && form.rounding == rounding) return form.both;
    }
    return std::nullopt;
  }

  /// Rounding after arithmetic, and the square root before a multiply-add.
  void combine_unary(int id) {
    FusedOp& user = node(id);
    const int inner = user.operands[0];
    if (user.kind != FusedOp::Kind::Chain || !can_absorb(inner, user)) return;
    const FusedOp& first = node(inner);
    if (const auto rounded = rounded_form(first.chain, user.chain);
        rounded && !stored_.contains(id)) {
      user.chain = *rounded;
      user.operands = first.operands;
    } else if (user.chain == ChainOp::FmaF && first.chain == ChainOp::SqrtF) {
      user.chain = ChainOp::SqrtThenFma;
      user.operands[0] = first.operands[0];
    } else {
      return;
    }
    node(inner).uses = 0;
  }

  bool make_pair(FusedOp& user, int position, int inner, int other) {
    const FusedOp& first = node(inner);
    // The operand that goes on from the ops before, if there is one.
    const int x = first.operands[1] >= 0 && in_memory(first.operands[0], user) ? 1 : 0;
    const auto first_part = part(first, x);
    const auto second_part = part(user, position);
    if (!first_part || !second_part || first.chain == ChainOp::DivF) return false;
    user.chain = pair_op(*first_part, *second_part);
    user.operands = {first.operands[static_cast<std::size_t>(x)],
                     first.operands[static_cast<std::size_t>(1 - x)], other};
    return true;
  }

  bool make_product(FusedOp& user, int position, int inner, int other) {
    const FusedOp& product = node(inner);
    const bool is_product = product.chain == ChainOp::MulF || product.chain == ChainOp::Square;
    if (!is_product) return false;
    const int p = product.operands[0];
    const int q = product.chain == ChainOp::Square ? p : product.operands[1];
    if (!in_memory(p, user) || !in_memory(q, user)) return false;
    const auto sum = part(user, position);
    if (!sum) return false;
    switch (*sum) {
      case PairPart::Add:
        user.chain = ChainOp::AddProduct;
        break;
      case PairPart::Rsub:
        user.chain = ChainOp::SubProduct;
        break;
      case PairPart::Sub:
        user.chain = ChainOp::RsubProduct;
        break;
      default:
        return false;
    }
    user.operands = {other, p, q};
    return true;
  }

  FusedProgram& program_;
  std::set<int> stored_;  // in 16 bits: the store can round them
};

}  // namespace

void combine_ops(FusedProgram& program) {
  Combiner(program).run();
  program.body = body_order(program);
}

}  // namespace pando::cpu
