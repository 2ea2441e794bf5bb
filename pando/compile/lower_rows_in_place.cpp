// Remote loads whose rows, where they lie in memory, are operands themselves.
#include <algorithm>

#include "pando/compile/function_lowering.hpp"

namespace pando {

/// A load whose row is used in place until instruction `last`.
struct FunctionLowering::LoadInPlace {
  std::size_t load = 0;
  std::size_t last = 0;
};

bool FunctionLowering::writes(const PendingInstruction& pending, int storage) const {
  return std::any_of(pending.operands.begin(), pending.operands.end(),
                     [&](const SymbolicOperand& operand) {
                       return operand.storage == storage && !operand.read_only;
                     });
}

bool FunctionLowering::may_touch_row(const PendingInstruction& pending,
                                     const PendingInstruction& load) const {
  if (pending.row && load.row && *pending.row != *load.row) return false;
  const AccessSpace transfer = {AccessSpace::Kind::Effect,
                                static_cast<std::int32_t>(Instruction::Kind::RemoteLoad),
                                load.instruction.target};
  return program_.effects_of(pending.instruction).contains(transfer);
}

/// `uses`: the instructions, in order, that touch what instruction `load` loads. If one of them
/// writes it, the row has the new value early: nobody may look at it before that is stored there.
bool FunctionLowering::may_use_row_in_place(std::size_t load, const std::vector<std::size_t>& uses,
                                            const std::vector<LoadInPlace>& earlier) {
  PendingInstruction& transfer = pending_[load];
  const SymbolicOperand& target = transfer.operands[1];
  const Storage& storage = storages_[static_cast<std::size_t>(target.storage)];
  const RemoteBufferDesc& buffer =
      program_.program_.remote_buffers[static_cast<std::size_t>(transfer.instruction.target)];
  const auto row_bytes =
      num_elements(buffer.shape) * static_cast<std::int64_t>(dtype_bytes(buffer.dtype));
  const bool is_whole = target.offset == 0 && storage.bytes == row_bytes;
  if (storage.kind != StorageKind::Local || !is_whole || uses.front() != load) return false;
  const bool is_loaded_again = std::any_of(uses.begin(), uses.end(), [&](std::size_t use) {
    return use != load && pending_[use].instruction.kind == Instruction::Kind::RemoteLoad;
  });
  if (is_loaded_again) return false;
  std::size_t stored = load;
  const auto last_write = std::find_if(uses.rbegin(), uses.rend(), [&](std::size_t use) {
    return writes(pending_[use], target.storage);
  });
  if (*last_write != load) {
    const auto store = std::find_if(last_write.base(), uses.end(), [&](std::size_t use) {
      const PendingInstruction& pending = pending_[use];
      return pending.instruction.kind == Instruction::Kind::RemoteStore &&
             pending.instruction.target == transfer.instruction.target &&
             pending.operands[1].storage == target.storage && pending.operands[1].offset == 0 &&
             pending.row && pending.row == transfer.row;
    });
    if (store == uses.end()) return false;
    stored = *store;
    for (std::size_t i = load + 1; i < stored; ++i) {
      if (may_touch_row(pending_[i], transfer)) return false;
    }
    const bool is_seen = std::any_of(earlier.begin(), earlier.end(), [&](const LoadInPlace& other) {
      return other.last > load && may_touch_row(pending_[other.load], transfer);
    });
    if (is_seen) return false;
    transfer.instruction.writes_row = true;
  }
  for (std::size_t i = stored + 1; i <= uses.back(); ++i) {
    if (may_overwrite(pending_[i], transfer)) return false;
  }
  return true;
}

void FunctionLowering::use_rows_in_place() {
  // Another device could store to the row meanwhile.
  if (program_.devices_.size() > 1) return;
  std::vector<std::vector<std::size_t>> uses(storages_.size());
  std::vector<std::size_t> loads;
  for (std::size_t i = 0; i < pending_.size(); ++i) {
    if (pending_[i].instruction.kind == Instruction::Kind::RemoteLoad) loads.push_back(i);
    for (const SymbolicOperand& operand : pending_[i].operands) {
      if (operand.storage < 0) continue;
      auto& of_storage = uses[static_cast<std::size_t>(operand.storage)];
      if (of_storage.empty() || of_storage.back() != i) of_storage.push_back(i);
    }
  }
  std::vector<LoadInPlace> in_place;
  for (const std::size_t load : loads) {
    Instruction& instruction = pending_[load].instruction;
    const auto target = static_cast<std::size_t>(pending_[load].operands[1].storage);
    if (!may_use_row_in_place(load, uses[target], in_place)) {
      instruction.writes_row = false;
      continue;
    }
    storages_[target].row = instruction.row = program_.num_rows_++;
    in_place.push_back({load, uses[target].back()});
  }
}

}  // namespace pando
