#include "pando/compile/insert_transfers.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "pando/compile/copied_bytes.hpp"
#include "pando/steps/step_devices.hpp"

namespace pando {
namespace {

using Kind = Instruction::Kind;

class TransferInserter {
 public:
  /// `copied`: by kernel. `number`: of the next transfer of the program.
  TransferInserter(StepProgram& program, StepFunction& function,
                   const std::vector<CopiedBytes>& copied, std::int32_t& number)
      : program_(program), function_(function), copied_(copied), number_(number) {
    for (const Storage& storage : function.storages) {
      has_value_.push_back(
          storage.kind == Storage::Kind::Global || storage.starts_undefined ||
          (storage.kind == Storage::Kind::Argument && storage.slot < function.num_inputs));
    }
  }

  void run() {
    std::vector<StepInstruction> before = std::move(function_.instructions);
    function_.instructions.clear();
    function_.instructions.reserve(before.size());
    for (StepInstruction& in : before) {
      if (send_copy(in)) continue;
      if (program_.devices_share_memory) {
        function_.instructions.push_back(std::move(in));
      } else {
        move_operands(std::move(in));
      }
    }
  }

 private:
  /// A storage of the function and a device that needs its value.
  using Place = std::pair<std::int32_t, std::int32_t>;

  Storage& storage(std::int32_t index) { return function_.storage_of({index}); }

  bool runs_on(std::int32_t device) const {
    return std::binary_search(function_.devices.begin(), function_.devices.end(), device);
  }

  CopiedBytes copied_by(const StepInstruction& in) const {
    if (in.kind == Kind::Copy) return {in.count};
    if (in.kind != Kind::Kernel) return {};
    return copied_[static_cast<std::size_t>(in.target)];
  }

  /// Whether `in` was a copy between devices, which is a transfer now.
  bool send_copy(const StepInstruction& in) {
    const CopiedBytes copy = copied_by(in);
    if (copy.bytes == 0) return false;
    const StepOperand &from = in.operands[copy.from], &to = in.operands[copy.to];
    if (from.storage < 0 || to.storage < 0) return false;
    const std::int32_t sender = storage(from.storage).device;
    const std::int32_t receiver = storage(to.storage).device;
    if (is_on_every_device(function_, from.storage) || sender == receiver) return false;
    // Where devices share memory, a function may use that of one which does not run it.
    if (!runs_on(sender) || !runs_on(receiver)) return false;
    transfer(from, to, copy.bytes, in.source);
    note_write(to.storage);
    return true;
  }

  void transfer(const StepOperand& from, const StepOperand& to, std::int64_t bytes,
                std::int32_t source) {
    StepInstruction send;
    send.kind = Kind::Send;
    send.device = storage(from.storage).device;
    send.target = storage(to.storage).device;
    send.other_target = number_++;
    send.count = bytes;
    send.operands = {from.as_read_only()};
    send.source = source;
    StepInstruction receive = send;
    receive.kind = Kind::Receive;
    std::swap(receive.device, receive.target);
    receive.operands.push_back(to);
    function_.instructions.push_back(std::move(send));
    function_.instructions.push_back(std::move(receive));
  }

  /// The instruction, with its operands where it can use them.
  void move_operands(StepInstruction in) {
    moved_.clear();
    std::vector<PassedArgument> passed;
    if (in.kind == Kind::If) give_condition_to_all(in);
    if (in.is_call()) passed = passed_arguments(program_, in);
    std::vector<std::pair<StepOperand, std::size_t>> written;  // the original, the position
    for (std::size_t k = 0; k < in.operands.size(); ++k) {
      StepOperand& operand = in.operands[k];
      if (operand.storage < 0) continue;
      const bool is_argument = in.is_call() && passed[k].function >= 0;
      if (in.is_call() && !is_argument) continue;  // a condition, which is there by now
      const std::int32_t wanted = is_argument ? device_of(passed[k]) : in.device;
      const StepOperand original = operand;
      operand.storage = moved(in, original.storage, wanted, is_argument);
      if (!original.read_only) written.emplace_back(original, k);
    }
    const bool starts = in.kind == Kind::RemoteLoadStart;
    const std::vector<StepOperand> operands = in.operands;
    const std::int32_t source = in.source;
    function_.instructions.push_back(std::move(in));
    for (const auto& [original, k] : written) {
      if (starts) continue;  // the wait gives it back
      const std::int64_t bytes = passed.empty() ? -1 : bytes_of(passed[k]);
      give_back(original, operands[k], bytes, source);
    }
  }

  std::int32_t device_of(PassedArgument argument) const { return storage_of(argument).device; }
  std::int64_t bytes_of(PassedArgument argument) const { return storage_of(argument).bytes; }
  const Storage& storage_of(PassedArgument argument) const {
    const StepFunction& callee = program_.functions[static_cast<std::size_t>(argument.function)];
    return *std::find_if(callee.storages.begin(), callee.storages.end(), [&](const Storage& s) {
      return s.kind == Storage::Kind::Argument && s.slot == argument.slot;
    });
  }

  /// A condition for each device that runs a part of the branch.
  void give_condition_to_all(StepInstruction& branch) {
    const std::vector<std::int32_t> devices = devices_of(program_, branch);
    const StepOperand condition = branch.operands.front();
    std::vector<StepOperand> conditions;
    for (const std::int32_t device : devices) {
      conditions.push_back(condition);
      conditions.back().storage = moved(branch, condition.storage, device, false);
    }
    branch.operands.erase(branch.operands.begin());
    branch.operands.insert(branch.operands.begin(), conditions.begin(), conditions.end());
  }

  /// The storage on `device` in which `in` finds the value of storage `original`.
  std::int32_t moved(const StepInstruction& in, std::int32_t original, std::int32_t device,
                     bool is_argument) {
    const bool is_everywhere = is_on_every_device(function_, original);
    if (is_everywhere ? !is_argument : storage(original).device == device) return original;
    const auto [known, is_new] = moved_.try_emplace(Place(original, device), -1);
    if (!is_new) return known->second;
    std::int32_t& copy = known->second;
    if (in.kind == Kind::RemoteLoadWait) return copy = loading_.at(in.other_target);
    const auto received = received_.find(Place(original, device));
    copy = received != received_.end() ? received->second : new_copy(in, original, device);
    if (in.kind == Kind::RemoteLoadStart && original == in.destination().storage) {
      loading_[in.other_target] = copy;
    }
    return copy;
  }

  std::int32_t new_copy(const StepInstruction& in, std::int32_t original, std::int32_t device) {
    const std::int32_t copy = new_storage(original, device);
    if (is_on_every_device(function_, original)) {
      copy_here(original, copy, in.source);
    } else if (has_value_[static_cast<std::size_t>(original)]) {
      transfer({original}, {copy}, storage(original).bytes, in.source);
      received_[Place(original, device)] = copy;
    }
    return copy;
  }

  std::int32_t new_storage(std::int32_t original, std::int32_t device) {
    Storage copy;
    copy.bytes = storage(original).bytes;
    copy.name = storage(original).name;
    copy.location = storage(original).location;
    copy.device = device;
    function_.storages.push_back(copy);
    has_value_.push_back(true);
    return static_cast<std::int32_t>(function_.storages.size()) - 1;
  }

  /// Each device has an iterator of its own: what a call passes on must be one for all.
  void copy_here(std::int32_t from, std::int32_t to, std::int32_t source) {
    StepInstruction copy;
    copy.kind = Kind::Copy;
    copy.count = storage(from).bytes;
    copy.operands = {StepOperand{from}.as_read_only(), {to}};
    copy.device = storage(to).device;
    copy.source = source;
    function_.instructions.push_back(std::move(copy));
  }

  /// After `original` was written through `operand`. `bytes`: of an argument; -1: the whole
  /// storage.
  void give_back(const StepOperand& original, const StepOperand& operand, std::int64_t bytes,
                 std::int32_t source) {
    const bool is_here = original.storage == operand.storage;
    const std::int32_t device = storage(operand.storage).device;
    if (bytes >= 0) {
      if (!is_here) transfer(operand, original, bytes, source);
      return note_write(original.storage);
    }
    const auto once = moved_.find(Place(original.storage, device));
    if (!is_here && once == moved_.end()) return;  // given back as another operand
    note_write(original.storage);
    if (is_here) return;
    moved_.erase(once);
    transfer({operand.storage}, {original.storage}, storage(original.storage).bytes, source);
    received_[Place(original.storage, device)] = operand.storage;
  }

  /// What others have of the storage is old. Two arguments may be one storage of the caller.
  void note_write(std::int32_t written) {
    has_value_[static_cast<std::size_t>(written)] = true;
    const bool is_argument = storage(written).kind == Storage::Kind::Argument;
    std::erase_if(received_, [&](const auto& entry) {
      const std::int32_t original = entry.first.first;
      return original == written ||
             (is_argument && storage(original).kind == Storage::Kind::Argument);
    });
  }

  StepProgram& program_;
  StepFunction& function_;
  const std::vector<CopiedBytes>& copied_;
  std::int32_t& number_;
  std::vector<bool> has_value_;                   // by storage
  std::map<Place, std::int32_t> received_;        // what is still as the original
  std::map<Place, std::int32_t> moved_;           // of the instruction that is looked at
  std::map<std::int32_t, std::int32_t> loading_;  // by remote transfer: where it goes
};

}  // namespace

void insert_transfers(StepProgram& program) {
  if (program.device_numbers.size() == 1) return;
  std::vector<CopiedBytes> copied;
  copied.reserve(program.tables.kernels.size());
  for (const KernelSpec& spec : program.tables.kernels) copied.push_back(copied_bytes(spec));
  std::int32_t number = 0;
  for (StepFunction& function : program.functions) {
    TransferInserter(program, function, copied, number).run();
  }
}

}  // namespace pando
