// Remote loads that go on while the program does.
#include <algorithm>

#include "pando/compile/function_lowering.hpp"

namespace pando {

/// A remote load in two parts, also where nothing lies between: then later loads that start early
/// come after it in the queue, not before. It starts before instruction `start`, is waited for
/// before instruction `wait` (the number of instructions: at the end).
struct FunctionLowering::EarlyLoad {
  int load = 0;
  int start = 0;
  int wait = 0;
};

bool FunctionLowering::touches(const PendingInstruction& pending, int storage) const {
  return pending.callee_frame == storage ||
         std::any_of(pending.operands.begin(), pending.operands.end(),
                     [&](const SymbolicOperand& operand) { return operand.storage == storage; });
}

bool FunctionLowering::may_transfer_row(const PendingInstruction& pending,
                                        const PendingInstruction& load,
                                        Instruction::Kind effect) const {
  if (pending.row && load.row && *pending.row != *load.row) return false;
  return program_.effects_of(pending.instruction)
      .contains(
          {AccessSpace::Kind::Effect, static_cast<std::int32_t>(effect), load.instruction.target});
}

bool FunctionLowering::may_start_before(const PendingInstruction& load,
                                        const PendingInstruction& other) const {
  const int offset = load.operands[0].storage;
  if (touches(other, load.operands[1].storage)) return false;
  if (may_transfer_row(other, load, Instruction::Kind::RemoteStore)) return false;
  const auto is_argument = [&](int storage) {
    return storages_[static_cast<std::size_t>(storage)].kind == StorageKind::Argument;
  };
  // Arguments may be the same memory.
  return std::none_of(
      other.operands.begin(), other.operands.end(), [&](const SymbolicOperand& operand) {
        if (operand.storage < 0 || operand.read_only) return false;
        return operand.storage == offset || (is_argument(offset) && is_argument(operand.storage));
      });
}

std::vector<FunctionLowering::EarlyLoad> FunctionLowering::find_early_loads() const {
  const int size = static_cast<int>(pending_.size());
  const auto at = [&](int i) -> const PendingInstruction& {
    return pending_[static_cast<std::size_t>(i)];
  };
  const auto is_load = [](const PendingInstruction& pending) {
    return pending.instruction.kind == Instruction::Kind::RemoteLoad;
  };
  std::map<int, int> loads_into;  // by storage
  for (const PendingInstruction& pending : pending_) {
    if (is_load(pending)) ++loads_into[pending.operands[1].storage];
  }
  const auto inputs = static_cast<std::int32_t>(graph_.inputs().size());
  const auto may_split = [&](const PendingInstruction& load) {
    const int target = load.operands[1].storage;
    const Storage& storage = storages_[static_cast<std::size_t>(target)];
    const bool is_input = storage.kind == StorageKind::Argument && storage.slot < inputs;
    // Twice the same memory, or memory that the caller may use under another name.
    return loads_into[target] == 1 && !is_input;
  };
  std::vector<std::int64_t> early_bytes(pending_.size(), 0);
  std::vector<EarlyLoad> result;
  for (int i = 0; i < size; ++i) {
    const PendingInstruction& load = at(i);
    if (!is_load(load) || !may_split(load)) continue;
    const int target = load.operands[1].storage;
    const std::int64_t bytes = storages_[static_cast<std::size_t>(target)].bytes;
    EarlyLoad early{i, i, i + 1};
    while (early.wait < size && !touches(at(early.wait), target)) ++early.wait;
    // An offset that is loaded itself is there only after a wait.
    const bool may_move = !loads_into.contains(load.operands[0].storage);
    const auto has_room = [&](int before) {
      return early_bytes[static_cast<std::size_t>(before)] + bytes <= program_.prefetch_bytes_;
    };
    while (may_move && early.start > 0 && has_room(early.start - 1) &&
           may_start_before(load, at(early.start - 1))) {
      --early.start;
      early_bytes[static_cast<std::size_t>(early.start)] += bytes;
    }
    result.push_back(early);
  }
  return result;
}

void FunctionLowering::split_loads(const std::vector<EarlyLoad>& loads) {
  std::vector<std::vector<PendingInstruction>> before(pending_.size() + 1);
  std::vector<bool> replaced(pending_.size(), false);
  const auto first_transfer = program_.num_transfers_;
  for (const EarlyLoad& early : loads) {
    PendingInstruction start = pending_[static_cast<std::size_t>(early.load)];
    start.instruction.kind = Instruction::Kind::RemoteLoadStart;
    start.instruction.other_target = program_.num_transfers_++;
    before[static_cast<std::size_t>(early.start)].push_back(std::move(start));
    replaced[static_cast<std::size_t>(early.load)] = true;
  }
  for (std::size_t k = 0; k < loads.size(); ++k) {
    const PendingInstruction& load = pending_[static_cast<std::size_t>(loads[k].load)];
    PendingInstruction wait;
    wait.instruction = load.instruction;
    wait.instruction.kind = Instruction::Kind::RemoteLoadWait;
    wait.instruction.other_target = first_transfer + static_cast<std::int32_t>(k);
    wait.operands = {load.operands[1]};
    before[static_cast<std::size_t>(loads[k].wait)].push_back(std::move(wait));
  }
  std::vector<PendingInstruction> result;
  for (std::size_t i = 0; i < before.size(); ++i) {
    for (PendingInstruction& pending : before[i]) result.push_back(std::move(pending));
    if (i < pending_.size() && !replaced[i]) result.push_back(std::move(pending_[i]));
  }
  pending_ = std::move(result);
}

void FunctionLowering::overlap_remote_loads() {
  const std::vector<EarlyLoad> loads = find_early_loads();
  if (!loads.empty()) split_loads(loads);
}

}  // namespace pando
