#include "pando/compile/receives_in_place.hpp"

#include <algorithm>
#include <set>
#include <unordered_map>
#include <vector>

#include "pando/ir/loop_arguments.hpp"

namespace pando {
namespace {

using Kind = Instruction::Kind;

class ReceivesInPlace {
 public:
  explicit ReceivesInPlace(StepFunction& function)
      : function_(function), place_(function.storages.size()), uses_(function.storages.size()) {}

  void run() {
    find_uses();
    std::set<std::int32_t> needless;  // their numbers
    for (std::size_t i = 0; i < function_.instructions.size(); ++i) {
      const StepInstruction& in = function_.instructions[i];
      if (in.kind != Kind::Receive || !may_read_in_place(in, i)) continue;
      place_[index(in.operands[1])] = place_of(in.operands[0]);
      needless.insert(in.other_target);
    }
    if (needless.empty()) return;
    std::erase_if(function_.instructions, [&](const StepInstruction& in) {
      return (in.kind == Kind::Send || in.kind == Kind::Receive) &&
             needless.contains(in.other_target);
    });
    for (StepInstruction& in : function_.instructions) {
      for (StepOperand& operand : in.operands) {
        if (operand.storage >= 0) operand = place_of(operand);
      }
    }
    send_from_places();
  }

 private:
  struct Uses {
    std::size_t first = 0;
    int count = 0, writes = 0;
  };

  static std::size_t index(const StepOperand& operand) {
    return static_cast<std::size_t>(operand.storage);
  }

  void find_uses() {
    for (std::size_t i = 0; i < function_.instructions.size(); ++i) {
      for (const StepOperand& operand : function_.instructions[i].operands) {
        if (operand.storage < 0) continue;
        Uses& uses = uses_[index(operand)];
        if (uses.count++ == 0) uses.first = i;
        uses.writes += operand.read_only ? 0 : 1;
      }
    }
  }

  /// What a device passed on belongs to another one by now, perhaps to the one that receives it.
  void send_from_places() {
    const auto sender_of = [this](const StepInstruction& in) {
      return function_.storage_of(in.operands[0]).device;
    };
    std::erase_if(function_.instructions, [&](const StepInstruction& in) {
      return in.kind == Kind::Send && in.target == sender_of(in);
    });
    for (StepInstruction& in : function_.instructions) {
      if (in.kind == Kind::Send) in.device = sender_of(in);
      if (in.kind != Kind::Receive) continue;
      in.target = sender_of(in);
      if (in.target == in.device) become_copy(in);
    }
  }

  static void become_copy(StepInstruction& receive) {
    StepInstruction copy;
    copy.kind = Kind::Copy;
    copy.device = receive.device;
    copy.count = receive.count;
    copy.operands = receive.operands;
    copy.source = receive.source;
    receive = std::move(copy);
  }

  /// Where the operand is by now.
  StepOperand place_of(const StepOperand& operand) const {
    const StepOperand& place = place_[index(operand)];
    if (place.storage < 0) return operand;
    return {place.storage, operand.read_only, place.offset + operand.offset};
  }

  bool may_read_in_place(const StepInstruction& receive, std::size_t at) const {
    const StepOperand from = place_of(receive.operands[0]), &to = receive.operands[1];
    const Storage& destination = function_.storage_of(to);
    const Uses& uses = uses_[index(to)];
    const bool is_only_this = destination.kind == Storage::Kind::Local &&
                              destination.bytes == receive.count && uses.first == at &&
                              uses.writes == 1;
    return is_only_this && stays(function_.storage_of(from)) && uses_[index(from)].writes == 0;
  }

  /// Whether only instructions of the function could change it while that runs.
  bool stays(const Storage& storage) const {
    if (storage.kind == Storage::Kind::Global) return true;
    // The next iteration of a loop writes where this one has what it carries.
    const bool is_carried = storage.slot >= kLoopControlInputs &&
                            storage.slot < kLoopControlInputs + function_.num_carried.value_or(0);
    return storage.kind == Storage::Kind::Argument && !is_carried;
  }

  StepFunction& function_;
  std::vector<StepOperand> place_;  // by storage: where it is read instead
  std::vector<Uses> uses_;          // by storage
};

/// Sends and their receives are numbered from 0.
void number_sends(StepProgram& program) {
  std::unordered_map<std::int32_t, std::int32_t> numbers;
  for (StepFunction& function : program.functions) {
    for (StepInstruction& in : function.instructions) {
      if (in.kind != Kind::Send && in.kind != Kind::Receive) continue;
      const auto next = static_cast<std::int32_t>(numbers.size());
      in.other_target = numbers.try_emplace(in.other_target, next).first->second;
    }
  }
}

}  // namespace

void use_receives_in_place(StepProgram& program) {
  if (!program.devices_share_memory || program.device_numbers.size() == 1) return;
  for (StepFunction& function : program.functions) ReceivesInPlace(function).run();
  number_sends(program);
}

}  // namespace pando
