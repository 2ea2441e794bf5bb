#include "pando/backends/cpu/fused/register_plan.hpp"

#include <algorithm>
#include <limits>

#include "pando/base/error.hpp"

namespace pando::cpu {
namespace {

constexpr int kNoRegister = -1;
constexpr int kNever = std::numeric_limits<int>::max();

/// A value of an op or the moving lanes of a slot.
struct Value {
  int next_use = kNever;  // place in the body
  int reg = kNoRegister;
  int spill = kNoRegister;
};

class Allocator {
 public:
  Allocator(const ChainBody& chain, int registers)
      : chain_(chain),
        body_(chain.program.body),
        values_(chain.program.ops.size() + chain.moves.size()),
        uses_after_(body_.size()),
        holders_(static_cast<std::size_t>(registers), kNoRegister) {
    for (std::size_t i = body_.size(); i-- > 0;) {
      for (std::size_t k = 3; k-- > 0;) {
        const int operand = chain.program.op(body_[i]).operands[k];
        if (!is_held(operand)) continue;
        uses_after_[i][k] = value(operand).next_use;
        value(operand).next_use = static_cast<int>(i);
      }
    }
  }

  RegisterPlan run() {
    plan_.actions.reserve(2 * body_.size());
    for (std::size_t i = 0; i < body_.size(); ++i) visit(static_cast<int>(i));
    return std::move(plan_);
  }

 private:
  const FusedOp& op_at(int position) const {
    return chain_.program.op(body_[static_cast<std::size_t>(position)]);
  }
  /// Whether registers hold it: invariant blocks are the code generator's.
  bool is_held(int operand) const {
    return operand != kNoRegister && (chain_.is_made(operand) || chain_.is_moving_block(operand));
  }
  Value& value(int operand) {
    if (chain_.is_made(operand)) return values_[static_cast<std::size_t>(operand)];
    return values_[chain_.program.ops.size() + static_cast<std::size_t>(chain_.slot(operand))];
  }

  void visit(int position) {
    const FusedOp& op = op_at(position);
    RegisterAction action;
    action.place = body_[static_cast<std::size_t>(position)];
    pinned_.fill(kNoRegister);
    const int in_memory = operand_from_memory(position);
    for (int k = 0; k < 3; ++k) {
      const int operand = op.operands[static_cast<std::size_t>(k)];
      if (operand == kNoRegister) continue;
      OperandPlace& place = action.operands[static_cast<std::size_t>(k)];
      if (chain_.program.op(operand).kind == FusedOp::Kind::Constant) {
        place = {OperandPlace::Kind::Literal, 0, chain_.constant_bits(operand)};
      } else if (!is_held(operand)) {
        place = {OperandPlace::Kind::Invariant, chain_.slot(operand), 0};
      } else if (k == in_memory) {
        place = {OperandPlace::Kind::Memory, chain_.slot(operand), 0};
      } else {
        place = {OperandPlace::Kind::Register, bring(operand), 0};
        pinned_[static_cast<std::size_t>(k)] = place.index;
      }
    }
    for (std::size_t k = 0; k < 3; ++k) {
      leave(op.operands[k], uses_after_[static_cast<std::size_t>(position)][k]);
    }
    if (!op.is_store()) action.reg = define(action.place);
    plan_.actions.push_back(action);
  }

  /// Which operand the code itself reads from memory: lanes that no register has and nothing else
  /// needs. Lanes of two bytes are always read where they are converted.
  int operand_from_memory(int position) {
    const FusedOp& op = op_at(position);
    if (op.is_store()) return kNoRegister;
    if (loads_half_precision(op.chain)) return 0;
    for (int k = 2; k >= 0; --k) {
      const auto at = static_cast<std::size_t>(k);
      const int operand = op.operands[at];
      if (operand == kNoRegister || !chain_.is_moving_block(operand)) continue;
      if (!may_be_in_memory(op.chain, k)) continue;
      const bool needed = uses_after_[static_cast<std::size_t>(position)][at] != kNever ||
                          std::count(op.operands.begin(), op.operands.end(), operand) > 1;
      if (value(operand).reg == kNoRegister && !needed) return k;
    }
    return kNoRegister;
  }

  int bring(int operand) {
    Value& wanted = value(operand);
    if (wanted.reg == kNoRegister) {
      wanted.reg = free_register();
      holders_[static_cast<std::size_t>(wanted.reg)] = operand;
      const bool reloads = chain_.is_made(operand);
      plan_.actions.push_back({reloads ? RegisterAction::Kind::Reload : RegisterAction::Kind::Load,
                               reloads ? wanted.spill : chain_.slot(operand),
                               wanted.reg,
                               {}});
    }
    return wanted.reg;
  }

  /// One use is done.
  void leave(int operand, int next_use) {
    if (!is_held(operand)) return;
    Value& left = value(operand);
    left.next_use = next_use;
    if (next_use != kNever || left.reg == kNoRegister) return;
    holders_[static_cast<std::size_t>(left.reg)] = kNoRegister;
    left.reg = kNoRegister;
  }

  /// The operands have been read: their registers may be free by now.
  int define(int made) {
    const int reg = free_register();
    if (value(made).next_use != kNever) {
      value(made).reg = reg;
      holders_[static_cast<std::size_t>(reg)] = made;
    }
    return reg;
  }

  int free_register() {
    for (std::size_t r = 0; r < holders_.size(); ++r) {
      if (holders_[r] == kNoRegister) return use(static_cast<int>(r));
    }
    int farthest = kNoRegister;
    for (int r = 0; r < static_cast<int>(holders_.size()); ++r) {
      if (std::find(pinned_.begin(), pinned_.end(), r) != pinned_.end()) continue;
      if (farthest == kNoRegister || holder(r).next_use > holder(farthest).next_use) farthest = r;
    }
    internal_check(farthest != kNoRegister, "a chain op needs more registers than there are");
    evict(farthest);
    return use(farthest);
  }
  const Value& holder(int reg) { return value(holders_[static_cast<std::size_t>(reg)]); }

  void evict(int reg) {
    const int operand = holders_[static_cast<std::size_t>(reg)];
    Value& evicted = value(operand);
    if (chain_.is_made(operand) && evicted.spill == kNoRegister) {
      evicted.spill = plan_.spill_places++;
      plan_.actions.push_back({RegisterAction::Kind::Spill, evicted.spill, reg, {}});
    }
    evicted.reg = kNoRegister;
    holders_[static_cast<std::size_t>(reg)] = kNoRegister;
  }

  int use(int reg) {
    plan_.registers_used = std::max(plan_.registers_used, reg + 1);
    return reg;
  }

  const ChainBody& chain_;
  const std::vector<int>& body_;
  std::vector<Value> values_;  // of ops, then of slots
  /// By place in the body and operand: the place that uses it next.
  std::vector<std::array<int, 3>> uses_after_;
  std::vector<int> holders_;  // by register: the operand that it holds
  std::array<int, 3> pinned_ = {kNoRegister, kNoRegister,
                                kNoRegister};  // registers of the op's operands
  RegisterPlan plan_;
};

}  // namespace

bool may_be_in_memory(ChainOp op, int operand) {
  return (chain_facts(op).memory >> operand & 1) != 0;
}

RegisterPlan plan_registers(const ChainBody& chain, int registers) {
  return Allocator(chain, registers).run();
}

}  // namespace pando::cpu
