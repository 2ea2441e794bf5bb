#include "pando/compile/assign_devices.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

#include "pando/base/alignment.hpp"
#include "pando/ir/loop_arguments.hpp"
#include "pando/program/check_tables.hpp"
#include "pando/steps/step_devices.hpp"

namespace pando {
namespace {

constexpr std::int32_t kUnknown = -1;

void assign_instructions(const StepProgram& program, StepFunction& function) {
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

/// Arguments of functions in classes that lie on one device.
class ArgumentClasses {
 public:
  explicit ArgumentClasses(const StepProgram& program) {
    std::size_t count = 0;
    for (const StepFunction& function : program.functions) {
      first_.push_back(count);
      count += static_cast<std::size_t>(function.num_arguments);
    }
    parents_.resize(count);
    std::iota(parents_.begin(), parents_.end(), std::size_t{0});
    devices_.resize(count, kUnknown);
  }

  void join(PassedArgument a, PassedArgument b) { parents_[root(a)] = root(b); }
  /// Unknown until it has been set.
  std::int32_t& device(PassedArgument argument) { return devices_[root(argument)]; }

 private:
  std::size_t root(PassedArgument argument) {
    std::size_t at = first_[static_cast<std::size_t>(argument.function)] +
                     static_cast<std::size_t>(argument.slot);
    while (parents_[at] != at) at = parents_[at] = parents_[parents_[at]];
    return at;
  }

  std::vector<std::size_t> first_;    // by function
  std::vector<std::size_t> parents_;  // by argument
  std::vector<std::int32_t> devices_;
};

class StoragePlacer {
 public:
  explicit StoragePlacer(StepProgram& program)
      : program_(program),
        arguments_(program),
        persistent_(program.tables.persistent.size(), kUnknown) {
    const std::vector<PersistentTensor>& tensors = program.tables.persistent;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      persistent_at_.try_emplace({tensors[i].device, tensors[i].offset, bytes_of(tensors[i])}, i);
    }
  }

  void run() {
    for (const StepFunction& function : program_.functions) {
      for (const StepInstruction& in : function.instructions) join_arguments(in);
    }
    for (std::size_t i = 0; i < program_.functions.size(); ++i) place_used(i);
    place_persistent_memory();
    for (std::size_t i = 0; i < program_.functions.size(); ++i) place_the_rest(i);
  }

 private:
  static std::int64_t bytes_of(const PersistentTensor& tensor) {
    return program_check::checked_bytes(tensor.dtype, tensor.shape);
  }
  static PassedArgument argument(std::size_t function, const Storage& storage) {
    return {static_cast<std::int32_t>(function), storage.slot};
  }

  /// Both branches write one output, and iterations read and write what they carry by turns.
  void join_arguments(const StepInstruction& in) {
    const auto function = [&](std::int32_t index) -> const StepFunction& {
      return program_.functions[static_cast<std::size_t>(index)];
    };
    if (in.kind == Instruction::Kind::If) {
      const std::int32_t then = function(in.target).num_inputs;
      const std::int32_t otherwise = function(in.other_target).num_inputs;
      for (std::int32_t k = 0; then + k < function(in.target).num_arguments; ++k) {
        arguments_.join({in.target, then + k}, {in.other_target, otherwise + k});
      }
    }
    if (in.kind != Instruction::Kind::Loop) return;
    const std::int32_t first_output = function(in.target).num_inputs + kLoopControlOutputs;
    for (std::int32_t k = 0; k < in.num_carried; ++k) {
      arguments_.join({in.target, kLoopControlInputs + k}, {in.target, first_output + k});
    }
  }

  void place_used(std::size_t index) {
    StepFunction& function = program_.functions[index];
    std::vector<bool> is_placed(function.storages.size());
    for (const StepInstruction& in : function.instructions) {
      std::vector<PassedArgument> passed;
      if (in.is_call()) passed = passed_arguments(program_, in);
      for (std::size_t k = 0; k < in.operands.size(); ++k) {
        const std::int32_t storage = in.operands[k].storage;
        if (storage < 0) continue;
        const auto s = static_cast<std::size_t>(storage);
        std::int32_t device = in.device;
        if (in.is_call() && passed[k].function >= 0) {
          std::int32_t& wanted = arguments_.device(passed[k]);
          if (wanted == kUnknown) wanted = device;
          device = wanted;
        }
        if (!is_placed[s]) place(index, function.storages[s], device);
        is_placed[s] = true;
      }
    }
  }

  void place(std::size_t function, Storage& storage, std::int32_t device) {
    if (storage.kind == Storage::Kind::Local) {
      storage.device = device;
      return;
    }
    std::int32_t& known = storage.kind == Storage::Kind::Argument
                              ? arguments_.device(argument(function, storage))
                              : persistent_[persistent_of(storage)];
    if (known == kUnknown) known = device;
  }

  std::size_t persistent_of(const Storage& storage) const {
    return persistent_at_.at({storage.device, storage.offset, storage.bytes});
  }

  /// A block for each device instead of one for all.
  void place_persistent_memory() {
    std::vector<PersistentTensor>& tensors = program_.tables.persistent;
    std::vector<std::int64_t>& bytes = program_.tables.persistent_bytes;
    std::fill(bytes.begin(), bytes.end(), 0);
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      tensors[i].device = std::max(persistent_[i], 0);
      std::int64_t& end = bytes[static_cast<std::size_t>(tensors[i].device)];
      tensors[i].offset = end;
      end += align_bytes(bytes_of(tensors[i]));
    }
  }

  void place_the_rest(std::size_t index) {
    StepFunction& function = program_.functions[index];
    for (Storage& storage : function.storages) {
      if (storage.kind == Storage::Kind::Local) continue;
      if (storage.kind == Storage::Kind::Argument) {
        const std::int32_t device = arguments_.device(argument(index, storage));
        storage.device = device == kUnknown ? function.devices.front() : device;
        continue;
      }
      const PersistentTensor& tensor = program_.tables.persistent[persistent_of(storage)];
      storage.device = tensor.device;
      storage.offset = tensor.offset;
    }
  }

  StepProgram& program_;
  ArgumentClasses arguments_;
  /// Device, offset and bytes of a tensor of persistent memory, before they change.
  using Place = std::tuple<std::int32_t, std::int64_t, std::int64_t>;
  std::map<Place, std::size_t> persistent_at_;
  std::vector<std::int32_t> persistent_;  // by tensor: its device
};

/// Values are sent by the device that has them, so a function runs there as well.
void add_devices_of_storages(const StepProgram& program, StepFunction& function) {
  std::set<std::int32_t> devices(function.devices.begin(), function.devices.end());
  for (StepInstruction& in : function.instructions) {
    for (const StepOperand& operand : in.operands) {
      if (operand.storage >= 0) devices.insert(function.storage_of(operand).device);
    }
    if (!in.is_call()) continue;
    const std::vector<std::int32_t> of_callee = devices_of(program, in);
    in.device = of_callee.front();
    devices.insert(of_callee.begin(), of_callee.end());
  }
  function.devices = {devices.begin(), devices.end()};
}

}  // namespace

void assign_devices(StepProgram& program) {
  for (StepFunction& function : program.functions) assign_instructions(program, function);
  if (program.device_numbers.size() == 1) return;
  StoragePlacer(program).run();
  if (!program.devices_share_memory) {
    for (StepFunction& function : program.functions) add_devices_of_storages(program, function);
  }
  std::vector<PersistentTensor>& tensors = program.tables.persistent;
  std::stable_sort(
      tensors.begin(), tensors.end(),
      [](const PersistentTensor& a, const PersistentTensor& b) { return a.device < b.device; });
}

}  // namespace pando
