#include "pando/backends/cpu/fused/register_plan.hpp"

#include <algorithm>
#include <limits>
#include <map>

#include "pando/base/error.hpp"

namespace pando::cpu {
namespace {

constexpr int kNone = -1;
constexpr int kNever = std::numeric_limits<int>::max();

/// A value of a step or the moving lanes of a slot, both by their operand number.
struct Value {
  std::vector<int> uses;  // steps, in order
  std::size_t next = 0;
  int reg = kNone;
  int spill = kNone;
};

class Allocator {
 public:
  Allocator(const std::vector<ChainStep>& steps, const std::vector<bool>& moves, int registers)
      : steps_(steps), moves_(moves), holders_(static_cast<std::size_t>(registers), kNoOperand) {
    for (std::size_t i = 0; i < steps.size(); ++i) {
      for (int operand : steps[i].operands) {
        if (is_held(operand)) values_[operand].uses.push_back(static_cast<int>(i));
      }
    }
  }

  RegisterPlan run() {
    for (std::size_t i = 0; i < steps_.size(); ++i) visit(static_cast<int>(i));
    return std::move(plan_);
  }

 private:
  bool moves(int slot) const { return moves_[static_cast<std::size_t>(slot)]; }
  /// Whether registers hold it: invariant blocks are the code generator's.
  bool is_held(int operand) const {
    return operand >= 0 || (is_block_in_slot(operand) && moves(slot_of_block(operand)));
  }
  static int next_use(const Value& value) {
    return value.next < value.uses.size() ? value.uses[value.next] : kNever;
  }

  void visit(int number) {
    const ChainStep& step = steps_[static_cast<std::size_t>(number)];
    RegisterAction action;
    action.place = number;
    pinned_.clear();
    const int in_memory = operand_from_memory(step);
    for (int k = 0; k < 3; ++k) {
      const int operand = step.operands[static_cast<std::size_t>(k)];
      OperandPlace& place = action.operands[static_cast<std::size_t>(k)];
      if (operand == kNoOperand) continue;
      if (!is_held(operand)) {
        place = {OperandPlace::Kind::Invariant, slot_of_block(operand)};
      } else if (k == in_memory) {
        place = {OperandPlace::Kind::Memory, slot_of_block(operand)};
      } else {
        place = {OperandPlace::Kind::Register, bring(operand)};
      }
    }
    for (int operand : step.operands) leave(operand);
    if (step.kind == ChainStep::Kind::Compute) action.reg = define(number);
    plan_.actions.push_back(action);
  }

  /// Which operand the code itself reads from memory: lanes that no register has and nothing
  /// needs later. Float16 lanes are always read where they are converted.
  int operand_from_memory(const ChainStep& step) {
    if (step.kind != ChainStep::Kind::Compute) return kNone;
    if (step.op == ChainOp::LoadHalf) return 0;
    for (int k = 2; k >= 0; --k) {
      const int operand = step.operands[static_cast<std::size_t>(k)];
      if (operand >= 0 || !is_held(operand) || !may_be_in_memory(step.op, k)) continue;
      const Value& value = values_.at(operand);
      const bool last = value.next + 1 == value.uses.size();
      if (value.reg == kNone && last) return k;
    }
    return kNone;
  }

  int bring(int operand) {
    Value& value = values_.at(operand);
    if (value.reg == kNone) {
      value.reg = free_register();
      holders_[static_cast<std::size_t>(value.reg)] = operand;
      const bool reloads = operand >= 0;
      plan_.actions.push_back({reloads ? RegisterAction::Kind::Reload : RegisterAction::Kind::Load,
                               reloads ? value.spill : slot_of_block(operand),
                               value.reg,
                               {}});
    }
    pinned_.push_back(value.reg);
    return value.reg;
  }

  /// One use is done.
  void leave(int operand) {
    if (operand == kNoOperand || !is_held(operand)) return;
    Value& value = values_.at(operand);
    ++value.next;
    if (next_use(value) != kNever || value.reg == kNone) return;
    holders_[static_cast<std::size_t>(value.reg)] = kNoOperand;
    value.reg = kNone;
  }

  /// The operands have been read: their registers may be free by now.
  int define(int number) {
    Value& value = values_[number];
    const int reg = free_register();
    if (next_use(value) != kNever) {
      value.reg = reg;
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
      if (farthest == kNone || next_use(holder(r)) > next_use(holder(farthest))) farthest = r;
    }
    internal_check(farthest != kNone, "a chain step needs more registers than there are");
    evict(farthest);
    return use(farthest);
  }
  Value& holder(int reg) { return values_.at(holders_[static_cast<std::size_t>(reg)]); }

  void evict(int reg) {
    const int operand = holders_[static_cast<std::size_t>(reg)];
    Value& value = values_.at(operand);
    if (operand >= 0 && value.spill == kNone) {
      value.spill = plan_.spill_places++;
      plan_.actions.push_back({RegisterAction::Kind::Spill, value.spill, reg, {}});
    }
    value.reg = kNone;
    holders_[static_cast<std::size_t>(reg)] = kNoOperand;
  }

  int use(int reg) {
    plan_.registers_used = std::max(plan_.registers_used, reg + 1);
    return reg;
  }

  const std::vector<ChainStep>& steps_;
  const std::vector<bool>& moves_;
  std::map<int, Value> values_;
  std::vector<int> holders_;  // by register: the operand that it holds
  std::vector<int> pinned_;   // registers of the current step's operands
  RegisterPlan plan_;
};

}  // namespace

bool may_be_in_memory(ChainOp op, int operand) {
  switch (op) {
    case ChainOp::AddF:
    case ChainOp::MulF:
    case ChainOp::AddI:
    case ChainOp::MulI:
    case ChainOp::MinI:
    case ChainOp::MaxI:
    case ChainOp::AndI:
    case ChainOp::OrI:
    case ChainOp::XorI:
    case ChainOp::EqualF:
    case ChainOp::EqualI:
      return operand <= 1;
    case ChainOp::SubF:
    case ChainOp::DivF:
    case ChainOp::SubI:
    case ChainOp::LessF:
    case ChainOp::LessEqualF:
    case ChainOp::LessEqualI:
      return operand == 1;
    case ChainOp::LessI:
    case ChainOp::MinF:
    case ChainOp::MaxF:
    case ChainOp::MinNumberF:
    case ChainOp::MaxNumberF:
    case ChainOp::SqrtF:
    case ChainOp::FloorF:
    case ChainOp::CeilF:
    case ChainOp::RoundEvenF:
    case ChainOp::IntToFloat:
      return operand == 0;
    case ChainOp::FmaF:
    case ChainOp::SelectI:
      return operand == 2;
    default:
      return false;
  }
}

RegisterPlan plan_registers(const std::vector<ChainStep>& steps, const std::vector<bool>& moves,
                            int registers) {
  return Allocator(steps, moves, registers).run();
}

}  // namespace pando::cpu
