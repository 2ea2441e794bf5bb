#include "pando/backends/cpu/fused/register_plan.hpp"

#include <algorithm>
#include <limits>

#include "pando/base/error.hpp"

namespace pando::cpu {
namespace {

constexpr int kNone = -1;
constexpr int kNever = std::numeric_limits<int>::max();

/// A value of a step or the moving lanes of a slot.
struct Value {
  int next_use = kNever;  // step
  int reg = kNone;
  int spill = kNone;
};

class Allocator {
 public:
  Allocator(const std::vector<ChainStep>& steps, const std::vector<bool>& moves, int registers)
      : steps_(steps),
        moves_(moves),
        values_(steps.size() + moves.size()),
        uses_after_(steps.size()),
        holders_(static_cast<std::size_t>(registers), kNoOperand) {
    for (std::size_t i = steps.size(); i-- > 0;) {
      for (std::size_t k = 3; k-- > 0;) {
        const int operand = steps[i].operands[k];
        if (!is_held(operand)) continue;
        uses_after_[i][k] = value(operand).next_use;
        value(operand).next_use = static_cast<int>(i);
      }
    }
  }

  RegisterPlan run() {
    plan_.actions.reserve(2 * steps_.size());
    for (std::size_t i = 0; i < steps_.size(); ++i) visit(static_cast<int>(i));
    return std::move(plan_);
  }

 private:
  bool moves(int slot) const { return moves_[static_cast<std::size_t>(slot)]; }
  /// Whether registers hold it: invariant blocks are the code generator's.
  bool is_held(int operand) const {
    return operand >= 0 || (is_block_in_slot(operand) && moves(slot_of_block(operand)));
  }
  Value& value(int operand) {
    const std::size_t index =
        operand >= 0 ? static_cast<std::size_t>(operand)
                     : steps_.size() + static_cast<std::size_t>(slot_of_block(operand));
    return values_[index];
  }

  void visit(int number) {
    const ChainStep& step = steps_[static_cast<std::size_t>(number)];
    RegisterAction action;
    action.place = number;
    pinned_.fill(kNone);
    const int in_memory = operand_from_memory(number);
    for (int k = 0; k < 3; ++k) {
      const int operand = step.operands[static_cast<std::size_t>(k)];
      OperandPlace& place = action.operands[static_cast<std::size_t>(k)];
      if (operand == kNoOperand) continue;
      if (operand == kLiteral) {
        place.kind = OperandPlace::Kind::Literal;
      } else if (!is_held(operand)) {
        place = {OperandPlace::Kind::Invariant, slot_of_block(operand)};
      } else if (k == in_memory) {
        place = {OperandPlace::Kind::Memory, slot_of_block(operand)};
      } else {
        place = {OperandPlace::Kind::Register, bring(operand)};
        pinned_[static_cast<std::size_t>(k)] = place.index;
      }
    }
    for (std::size_t k = 0; k < 3; ++k)
      leave(step.operands[k], uses_after_[static_cast<std::size_t>(number)][k]);
    if (step.kind == ChainStep::Kind::Compute) action.reg = define(number);
    plan_.actions.push_back(action);
  }

  /// Which operand the code itself reads from memory: lanes that no register has and nothing else
  /// needs. Float16 lanes are always read where they are converted.
  int operand_from_memory(int number) {
    const ChainStep& step = steps_[static_cast<std::size_t>(number)];
    if (step.kind != ChainStep::Kind::Compute) return kNone;
    if (step.op == ChainOp::LoadHalf) return 0;
    for (int k = 2; k >= 0; --k) {
      const auto at = static_cast<std::size_t>(k);
      const int operand = step.operands[at];
      if (operand >= 0 || !is_held(operand) || !may_be_in_memory(step.op, k)) continue;
      const bool needed = uses_after_[static_cast<std::size_t>(number)][at] != kNever ||
                          std::count(step.operands.begin(), step.operands.end(), operand) > 1;
      if (value(operand).reg == kNone && !needed) return k;
    }
    return kNone;
  }

  int bring(int operand) {
    Value& wanted = value(operand);
    if (wanted.reg == kNone) {
      wanted.reg = free_register();
      holders_[static_cast<std::size_t>(wanted.reg)] = operand;
      const bool reloads = operand >= 0;
      plan_.actions.push_back({reloads ? RegisterAction::Kind::Reload : RegisterAction::Kind::Load,
                               reloads ? wanted.spill : slot_of_block(operand),
                               wanted.reg,
                               {}});
    }
    return wanted.reg;
  }

  /// One use is done.
  void leave(int operand, int next_use) {
    if (operand == kNoOperand || !is_held(operand)) return;
    Value& left = value(operand);
    left.next_use = next_use;
    if (next_use != kNever || left.reg == kNone) return;
    holders_[static_cast<std::size_t>(left.reg)] = kNoOperand;
    left.reg = kNone;
  }

  /// The operands have been read: their registers may be free by now.
  int define(int number) {
    const int reg = free_register();
    if (value(number).next_use != kNever) {
      value(number).reg = reg;
      holders_[static_cast<std::size_t>(reg)] = number;
    }
    return reg;
  }

  int free_register() {
    for (std::size_t r = 0; r < holders_.size(); ++r) {
      if (holders_[r] == kNoOperand) return use(static_cast<int>(r));
    }
    int farthest = kNone;
    for (int r = 0; r < static_cast<int>(holders_.size()); ++r) {
      if (std::find(pinned_.begin(), pinned_.end(), r) != pinned_.end()) continue;
      if (farthest == kNone || holder(r).next_use > holder(farthest).next_use) farthest = r;
    }
    internal_check(farthest != kNone, "a chain step needs more registers than there are");
    evict(farthest);
    return use(farthest);
  }
  const Value& holder(int reg) { return value(holders_[static_cast<std::size_t>(reg)]); }

  void evict(int reg) {
    const int operand = holders_[static_cast<std::size_t>(reg)];
    Value& evicted = value(operand);
    if (operand >= 0 && evicted.spill == kNone) {
      evicted.spill = plan_.spill_places++;
      plan_.actions.push_back({RegisterAction::Kind::Spill, evicted.spill, reg, {}});
    }
    evicted.reg = kNone;
    holders_[static_cast<std::size_t>(reg)] = kNoOperand;
  }

  int use(int reg) {
    plan_.registers_used = std::max(plan_.registers_used, reg + 1);
    return reg;
  }

  const std::vector<ChainStep>& steps_;
  const std::vector<bool>& moves_;
  std::vector<Value> values_;  // of steps, then of slots
  /// By step and operand: the step that uses it next.
  std::vector<std::array<int, 3>> uses_after_;
  std::vector<int> holders_;                           // by register: the operand that it holds
  std::array<int, 3> pinned_ = {kNone, kNone, kNone};  // registers of the step's operands
  RegisterPlan plan_;
};

}  // namespace

bool may_be_in_memory(ChainOp op, int operand) {
  return (chain_facts(op).memory >> operand & 1) != 0;
}

RegisterPlan plan_registers(const std::vector<ChainStep>& steps, const std::vector<bool>& moves,
                            int registers) {
  return Allocator(steps, moves, registers).run();
}

}  // namespace pando::cpu
