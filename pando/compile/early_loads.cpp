#include "pando/compile/early_loads.hpp"

#include <algorithm>
#include <map>

#include "pando/compile/step_effects.hpp"

namespace pando {
namespace {

/// A remote load in two parts, also where nothing lies between: then later loads that start early
/// come after it in the queue, not before. It starts before instruction `start`, is waited for
/// before instruction `wait` (the number of instructions: at the end).
struct EarlyLoad {
  int load = 0;
  int start = 0;
  int wait = 0;
};

class EarlyLoads {
 public:
  EarlyLoads(StepFunction& function, StepEffects& effects, std::int64_t prefetch_bytes)
      : function_(function), effects_(effects), prefetch_bytes_(prefetch_bytes) {}

  /// `num_transfers`: of all functions so far.
  void run(std::int32_t& num_transfers) {
    const std::vector<EarlyLoad> loads = find();
    if (!loads.empty()) split(loads, num_transfers);
  }

 private:
  const StepInstruction& at(int i) const {
    return function_.instructions[static_cast<std::size_t>(i)];
  }

  bool is_argument(std::int32_t storage) const {
    return function_.storages[static_cast<std::size_t>(storage)].kind == Storage::Kind::Argument;
  }

  bool may_start_before(const StepInstruction& load, const StepInstruction& other) {
    const std::int32_t offset = load.operands[0].storage;
    if (other.touches(load.destination().storage)) return false;
    if (effects_.may_transfer_row(other, load, Instruction::Kind::RemoteStore)) return false;
    // Arguments may be the same memory.
    return std::none_of(
        other.operands.begin(), other.operands.end(), [&](const StepOperand& operand) {
          if (operand.storage < 0 || operand.read_only) return false;
          return operand.storage == offset || (is_argument(offset) && is_argument(operand.storage));
        });
  }

  std::vector<EarlyLoad> find() {
    const int size = static_cast<int>(function_.instructions.size());
    std::map<std::int32_t, int> loads_into;  // by storage
    for (const StepInstruction& in : function_.instructions) {
      if (in.kind == Instruction::Kind::RemoteLoad) ++loads_into[in.destination().storage];
    }
    if (loads_into.empty()) return {};
    std::vector<std::int64_t> early_bytes(function_.instructions.size(), 0);
    std::vector<EarlyLoad> result;
    for (int i = 0; i < size; ++i) {
      const StepInstruction& load = at(i);
      if (load.kind != Instruction::Kind::RemoteLoad) continue;
      const std::int32_t target = load.destination().storage;
      const Storage& storage = function_.storage_of(load.destination());
      // Twice the same memory, or memory that the caller may use under another name.
      const bool is_input =
          storage.kind == Storage::Kind::Argument && storage.slot < function_.num_inputs;
      if (loads_into[target] != 1 || is_input) continue;
      EarlyLoad early{i, i, i + 1};
      while (early.wait < size && !at(early.wait).touches(target)) ++early.wait;
      // An offset that is loaded itself is there only after a wait.
      const bool may_move = !loads_into.contains(load.operands[0].storage);
      const auto has_room = [&](int before) {
        return early_bytes[static_cast<std::size_t>(before)] + storage.bytes <= prefetch_bytes_;
      };
      while (may_move && early.start > 0 && has_room(early.start - 1) &&
             may_start_before(load, at(early.start - 1))) {
        --early.start;
        early_bytes[static_cast<std::size_t>(early.start)] += storage.bytes;
      }
      result.push_back(early);
    }
    return result;
  }

  void split(const std::vector<EarlyLoad>& loads, std::int32_t& num_transfers) {
    std::vector<StepInstruction>& all = function_.instructions;
    std::vector<std::vector<StepInstruction>> before(all.size() + 1);
    std::vector<bool> replaced(all.size(), false);
    const std::int32_t first_transfer = num_transfers;
    for (const EarlyLoad& early : loads) {
      StepInstruction start = at(early.load);
      start.kind = Instruction::Kind::RemoteLoadStart;
      start.other_target = num_transfers++;
      before[static_cast<std::size_t>(early.start)].push_back(std::move(start));
      replaced[static_cast<std::size_t>(early.load)] = true;
    }
    for (std::size_t k = 0; k < loads.size(); ++k) {
      StepInstruction wait = at(loads[k].load);
      wait.kind = Instruction::Kind::RemoteLoadWait;
      wait.other_target = first_transfer + static_cast<std::int32_t>(k);
      wait.operands.erase(wait.operands.begin());
      wait.constant_row.reset();
      before[static_cast<std::size_t>(loads[k].wait)].push_back(std::move(wait));
    }
    std::vector<StepInstruction> result;
    result.reserve(all.size() + loads.size());
    for (std::size_t i = 0; i < before.size(); ++i) {
      for (StepInstruction& in : before[i]) result.push_back(std::move(in));
      if (i < all.size() && !replaced[i]) result.push_back(std::move(all[i]));
    }
    all = std::move(result);
  }

  StepFunction& function_;
  StepEffects& effects_;
  std::int64_t prefetch_bytes_;
};

}  // namespace

void start_loads_early(StepProgram& program) {
  if (program.prefetch_bytes <= 0) return;
  StepEffects effects(program);
  std::int32_t num_transfers = 0;
  for (const StepFunction& function : program.functions) {
    for (const StepInstruction& in : function.instructions) {
      if (in.kind != Instruction::Kind::RemoteLoadStart) continue;
      num_transfers = std::max(num_transfers, in.other_target + 1);
    }
  }
  for (StepFunction& function : program.functions) {
    EarlyLoads(function, effects, program.prefetch_bytes).run(num_transfers);
  }
}

}  // namespace pando
