#include "pando/compile/loads_in_place.hpp"

#include <algorithm>
#include <map>

#include "pando/compile/step_effects.hpp"

namespace pando {
namespace {

/// A load and what touches what it loads. Numbers of instructions, in order.
struct LoadInPlace {
  std::size_t load = 0;
  std::vector<std::size_t> uses;  // `load` among them
  std::size_t last_write = 0;     // `load` where nothing else writes it
};

std::int64_t loaded_bytes(const Program& tables, const StepInstruction& load) {
  const auto target = static_cast<std::size_t>(load.target);
  return load.kind == Instruction::Kind::HostLoad ? tables.streams[target].bytes()
                                                  : tables.remote_buffers[target].slot_bytes();
}

class LoadsInPlace {
 public:
  LoadsInPlace(const StepProgram& program, StepFunction& function, StepEffects& effects)
      : program_(program), function_(function), effects_(effects) {}

  /// `num_rows`: of all functions so far.
  void run(std::int32_t& num_rows) {
    std::vector<LoadInPlace> in_place;
    for (LoadInPlace& load : find_loads()) {
      if (!may_use_in_place(load, in_place)) continue;
      StepInstruction& instruction = function_.instructions[load.load];
      function_.storage_of(instruction.destination()).row = instruction.row = num_rows++;
      instruction.writes_row = load.last_write != load.load;
      in_place.push_back(std::move(load));
    }
  }

 private:
  const StepInstruction& at(std::size_t i) const { return function_.instructions[i]; }

  std::vector<LoadInPlace> find_loads() const {
    std::vector<LoadInPlace> loads;
    std::map<std::int32_t, std::vector<std::size_t>> loads_into;  // by storage
    for (std::size_t i = 0; i < function_.instructions.size(); ++i) {
      if (!at(i).is_load() || at(i).row >= 0) continue;
      loads_into[at(i).destination().storage].push_back(loads.size());
      loads.push_back({i, {}, i});
    }
    if (loads.empty()) return loads;
    for (std::size_t i = 0; i < function_.instructions.size(); ++i) {
      for (const StepOperand& operand : at(i).operands) {
        const auto it = loads_into.find(operand.storage);
        if (it == loads_into.end()) continue;
        for (const std::size_t load : it->second) {
          auto& uses = loads[load].uses;
          if (uses.empty() || uses.back() != i) uses.push_back(i);
          if (!operand.read_only) loads[load].last_write = i;
        }
      }
    }
    return loads;
  }

  /// Where the row is stored again after the last write, with the number of instructions for
  /// nowhere.
  std::size_t stored_at(const LoadInPlace& load) const {
    const StepInstruction& transfer = at(load.load);
    const auto store = std::find_if(load.uses.begin(), load.uses.end(), [&](std::size_t use) {
      const StepInstruction& other = at(use);
      return use > load.last_write && other.kind == Instruction::Kind::RemoteStore &&
             other.target == transfer.target &&
             other.operands[1].storage == transfer.operands[1].storage &&
             other.operands[1].offset == 0 && other.constant_row &&
             other.constant_row == transfer.constant_row;
    });
    return store == load.uses.end() ? function_.instructions.size() : *store;
  }

  /// If something writes the row, it has the new value early: nobody may look at it before that is
  /// stored there.
  bool may_write_in_place(const LoadInPlace& load, std::size_t stored,
                          const std::vector<LoadInPlace>& earlier) {
    const StepInstruction& transfer = at(load.load);
    if (stored == function_.instructions.size()) return false;
    for (std::size_t i = load.load + 1; i < stored; ++i) {
      if (effects_.may_transfer_row(at(i), transfer, Instruction::Kind::RemoteLoad)) return false;
    }
    return std::none_of(earlier.begin(), earlier.end(), [&](const LoadInPlace& other) {
      return other.uses.back() > load.load &&
             effects_.may_transfer_row(at(other.load), transfer, Instruction::Kind::RemoteLoad);
    });
  }

  bool may_use_in_place(const LoadInPlace& load, const std::vector<LoadInPlace>& earlier) {
    const StepInstruction& transfer = at(load.load);
    const Storage& storage = function_.storage_of(transfer.destination());
    const bool is_whole = transfer.destination().offset == 0 &&
                          storage.bytes == loaded_bytes(program_.tables, transfer);
    if (storage.kind != Storage::Kind::Local || !is_whole || load.uses.front() != load.load) {
      return false;
    }
    const bool is_loaded_again = std::any_of(load.uses.begin() + 1, load.uses.end(),
                                             [&](std::size_t use) { return at(use).is_load(); });
    if (is_loaded_again) return false;
    // The host's arrays are its own.
    const bool is_written = load.last_write != load.load;
    if (transfer.kind == Instruction::Kind::HostLoad) return !is_written;
    const std::size_t stored = is_written ? stored_at(load) : load.load;
    if (is_written && !may_write_in_place(load, stored, earlier)) return false;
    for (std::size_t i = stored + 1; i <= load.uses.back(); ++i) {
      if (effects_.may_transfer_row(at(i), transfer, Instruction::Kind::RemoteStore)) return false;
    }
    return true;
  }

  const StepProgram& program_;
  StepFunction& function_;
  StepEffects& effects_;
};

}  // namespace

void use_loads_in_place(StepProgram& program) {
  // Another device could store to the row meanwhile.
  if (program.device_numbers.size() > 1) return;
  StepEffects effects(program);
  std::int32_t num_rows = 0;
  for (const StepFunction& function : program.functions) {
    for (const StepInstruction& in : function.instructions) {
      num_rows = std::max(num_rows, in.row + 1);
    }
  }
  for (StepFunction& function : program.functions) {
    LoadsInPlace(program, function, effects).run(num_rows);
  }
}

}  // namespace pando
