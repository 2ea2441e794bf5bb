#include "pando/compile/storage_lifetimes.hpp"

#include <algorithm>
#include <map>
#include <set>

namespace pando {
namespace {

void assign_devices(const StepProgram& program, StepFunction& function) {
  std::set<std::int32_t> devices;
  for (StepInstruction& in : function.instructions) {
    if (!in.is_call()) {
      if (in.device >= 0) devices.insert(in.device);
      continue;
    }
    const std::vector<std::int32_t> of_callee = devices_of(program, in);
    in.device = of_callee.front();
    devices.insert(of_callee.begin(), of_callee.end());
  }
  if (devices.empty()) devices.insert(0);
  for (StepInstruction& in : function.instructions) {
    if (in.device < 0) in.device = *devices.begin();
  }
  function.devices = {devices.begin(), devices.end()};
}

void find_uses(StepFunction& function) {
  for (Storage& storage : function.storages) {
    storage.first = storage.last = -1;
    storage.is_shared = false;
  }
  for (std::size_t i = 0; i < function.instructions.size(); ++i) {
    const StepInstruction& in = function.instructions[i];
    const auto touch = [&](std::int32_t index) {
      if (index < 0) return;
      Storage& storage = function.storages[static_cast<std::size_t>(index)];
      if (storage.first < 0) {
        storage.first = static_cast<std::int32_t>(i);
        storage.device = in.device;
      }
      storage.is_shared = storage.is_shared || storage.device != in.device;
      storage.last = static_cast<std::int32_t>(i);
    };
    for (const StepOperand& operand : in.operands) touch(operand.storage);
    touch(in.callee_frame);
  }
}

void keep_shared_storages(StepFunction& function) {
  std::map<std::pair<std::int32_t, std::int64_t>, std::vector<Storage*>> rows;
  for (Storage& storage : function.storages) {
    if (storage.kind != Storage::Kind::Local || !storage.is_shared) continue;
    rows[{storage.device, storage.bytes}].push_back(&storage);
  }
  for (auto& [key, row] : rows) {
    std::stable_sort(row.begin(), row.end(),
                     [](const Storage* a, const Storage* b) { return a->first < b->first; });
    for (std::size_t i = 0; i + 1 < row.size(); ++i) {
      row[i]->last = std::max(row[i]->last, row[i + 1]->first);
    }
  }
}

}  // namespace

std::vector<std::int32_t> devices_of(const StepProgram& program,
                                     const StepInstruction& instruction) {
  if (!instruction.is_call()) return {instruction.device};
  const auto of_function = [&](std::int32_t function) -> const std::vector<std::int32_t>& {
    return program.functions[static_cast<std::size_t>(function)].devices;
  };
  std::vector<std::int32_t> devices = of_function(instruction.target);
  if (instruction.kind != Instruction::Kind::If) return devices;
  const std::vector<std::int32_t>& others = of_function(instruction.other_target);
  std::set<std::int32_t> all(devices.begin(), devices.end());
  all.insert(others.begin(), others.end());
  return {all.begin(), all.end()};
}

void assign_devices(StepProgram& program) {
  for (StepFunction& function : program.functions) assign_devices(program, function);
}

void find_lifetimes(StepProgram& program) {
  for (StepFunction& function : program.functions) {
    find_uses(function);
    keep_shared_storages(function);
  }
}

}  // namespace pando
