#include "pando/compile/storage_lifetimes.hpp"

#include <algorithm>
#include <map>
#include <vector>

namespace pando {
namespace {

void find_uses(StepFunction& function) {
  std::vector<std::int32_t> first_user(function.storages.size());
  for (Storage& storage : function.storages) {
    storage.first = storage.last = -1;
    storage.is_shared = false;
  }
  for (std::size_t i = 0; i < function.instructions.size(); ++i) {
    const StepInstruction& in = function.instructions[i];
    const auto touch = [&](std::int32_t index) {
      if (index < 0) return;
      Storage& storage = function.storages[static_cast<std::size_t>(index)];
      std::int32_t& user = first_user[static_cast<std::size_t>(index)];
      if (storage.first < 0) {
        storage.first = static_cast<std::int32_t>(i);
        user = in.device;
      }
      storage.is_shared = storage.is_shared || user != in.device;
      storage.last = static_cast<std::int32_t>(i);
    };
    for (const StepOperand& operand : in.operands) touch(operand.storage);
    for (const std::int32_t frame : in.callee_frames) touch(frame);
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

void find_lifetimes(StepProgram& program) {
  for (StepFunction& function : program.functions) {
    find_uses(function);
    keep_shared_storages(function);
  }
}

}  // namespace pando
