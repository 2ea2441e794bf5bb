// Loads whose rows, where they lie in memory, are operands themselves: of remote buffers and of the
// arrays of the host.
#include <algorithm>

#include "pando/compile/function_lowering.hpp"

namespace pando {

/// A load and what touches what it loads. Numbers of instructions, in order.
struct FunctionLowering::LoadInPlace {
  std::size_t load = 0;
  std::vector<std::size_t> uses;  // `load` among them
  std::size_t last_write = 0;     // `load` where nothing else writes it
};

bool FunctionLowering::is_load(const Instruction& instruction) {
  using Kind = Instruction::Kind;
  return instruction.kind == Kind::HostLoad || instruction.kind == Kind::RemoteLoad;
}

const FunctionLowering::SymbolicOperand& FunctionLowering::destination(
    const PendingInstruction& load) {
  return load.operands[load.instruction.destination()];
}

std::int64_t FunctionLowering::loaded_bytes(const Instruction& load) const {
  const Program& program = program_.program_;
  const auto target = static_cast<std::size_t>(load.target);
  return load.kind == Instruction::Kind::HostLoad ? program.streams[target].bytes()
                                                  : program.remote_buffers[target].slot_bytes();
}

/// Where the row is stored again after the last write, with the number of instructions for nowhere.
std::size_t FunctionLowering::stored_at(const LoadInPlace& load) const {
  const PendingInstruction& transfer = pending_[load.load];
  const auto store = std::find_if(load.uses.begin(), load.uses.end(), [&](std::size_t use) {
    const PendingInstruction& pending = pending_[use];
    return use > load.last_write && pending.instruction.kind == Instruction::Kind::RemoteStore &&
           pending.instruction.target == transfer.instruction.target &&
           pending.operands[1].storage == transfer.operands[1].storage &&
           pending.operands[1].offset == 0 && pending.row && pending.row == transfer.row;
  });
  return store == load.uses.end() ? pending_.size() : *store;
}

/// If something writes the row, it has the new value early: nobody may look at it before that is
/// stored there.
bool FunctionLowering::may_use_in_place(const LoadInPlace& load,
                                        const std::vector<LoadInPlace>& earlier) const {
  using Kind = Instruction::Kind;
  const PendingInstruction& transfer = pending_[load.load];
  const SymbolicOperand& target = destination(transfer);
  const Storage& storage = storages_[static_cast<std::size_t>(target.storage)];
  const bool is_whole = target.offset == 0 && storage.bytes == loaded_bytes(transfer.instruction);
  if (storage.kind != StorageKind::Local || !is_whole || load.uses.front() != load.load) {
    return false;
  }
  const bool is_loaded_again =
      std::any_of(load.uses.begin() + 1, load.uses.end(),
                  [&](std::size_t use) { return is_load(pending_[use].instruction); });
  if (is_loaded_again) return false;
  // The host's arrays are its own.
  if (transfer.instruction.kind == Kind::HostLoad) return load.last_write == load.load;
  std::size_t stored = load.load;
  if (load.last_write != load.load) {
    stored = stored_at(load);
    if (stored == pending_.size()) return false;
    for (std::size_t i = load.load + 1; i < stored; ++i) {
      if (may_transfer_row(pending_[i], transfer, Kind::RemoteLoad)) return false;
    }
    const bool is_seen = std::any_of(earlier.begin(), earlier.end(), [&](const LoadInPlace& other) {
      return other.uses.back() > load.load &&
             may_transfer_row(pending_[other.load], transfer, Kind::RemoteLoad);
    });
    if (is_seen) return false;
  }
  for (std::size_t i = stored + 1; i <= load.uses.back(); ++i) {
    if (may_transfer_row(pending_[i], transfer, Kind::RemoteStore)) return false;
  }
  return true;
}

void FunctionLowering::use_loads_in_place() {
  // Another device could store to the row meanwhile.
  if (program_.devices_.size() > 1) return;
  std::vector<LoadInPlace> loads;
  std::map<int, std::vector<std::size_t>> loads_into;  // by storage
  for (std::size_t i = 0; i < pending_.size(); ++i) {
    if (!is_load(pending_[i].instruction)) continue;
    loads_into[destination(pending_[i]).storage].push_back(loads.size());
    loads.push_back({i, {}, i});
  }
  if (loads.empty()) return;
  for (std::size_t i = 0; i < pending_.size(); ++i) {
    for (const SymbolicOperand& operand : pending_[i].operands) {
      const auto it = loads_into.find(operand.storage);
      if (it == loads_into.end()) continue;
      for (const std::size_t load : it->second) {
        auto& uses = loads[load].uses;
        if (uses.empty() || uses.back() != i) uses.push_back(i);
        if (!operand.read_only) loads[load].last_write = i;
      }
    }
  }
  std::vector<LoadInPlace> in_place;
  for (LoadInPlace& load : loads) {
    if (!may_use_in_place(load, in_place)) continue;
    Instruction& instruction = pending_[load.load].instruction;
    const int target = destination(pending_[load.load]).storage;
    storages_[static_cast<std::size_t>(target)].row = instruction.row = program_.num_rows_++;
    instruction.writes_row = load.last_write != load.load;
    in_place.push_back(std::move(load));
  }
}

}  // namespace pando
