// What is made of a program once, when it is loaded, so that runs look nothing up.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "pando/program/kernel.hpp"
#include "pando/program/program.hpp"

namespace pando {

class Target;

struct PreparedInstruction {
  const Instruction* instruction;
  const Kernel* kernel = nullptr;
  const HostKernel* host_kernel = nullptr;  // the same, if the queues are direct
  std::size_t bytes = 0;                    // that a transfer moves
  int first_operand = 0;                    // among those of its function
  int num_operands = 0;
  /// Where its pointers begin among those of a device: operands, then the callee's arguments.
  int first_pointer = 0;
  int first_frame = 0;  // among the same: the callee's frames, by device
  /// A branch: how many of its operands are conditions and, if several, which one is whose.
  int num_conditions = 0;
  std::vector<int> conditions;  // by device
  bool has_scratch = false;
  /// A loop on several devices: each has a counter of this number. -1: another instruction.
  std::int32_t counter = -1;
};

struct PreparedFunction {
  std::vector<PreparedInstruction> instructions;
  int num_operands = 0;
  /// The only device that runs it. -1: several do.
  std::int32_t device = 0;
  /// If several: by device, nullptr where it has nothing to do.
  std::vector<const std::vector<StreamStep>*> streams;
};

/// Never changes; all virtual devices of a replica use it.
class PreparedProgram {
 public:
  /// Keeps a reference to `program`. `target` prepares the kernels, for direct queues or others.
  PreparedProgram(const Program& program, Target& target, bool queues_are_direct);

  const Program& program() const { return program_; }
  const PreparedFunction& function(int index) const {
    return functions_[static_cast<std::size_t>(index)];
  }
  /// What a device needs room for: functions do not call themselves, so each instruction has one
  /// place.
  std::size_t num_pointers() const { return num_pointers_; }
  /// Loops on several devices.
  std::int32_t num_loop_counters() const { return num_loop_counters_; }
  /// Numbers of Instruction::row, and of loads that are started and waited for.
  std::size_t num_rows() const { return num_rows_; }
  std::size_t num_transfers() const { return num_transfers_; }

 private:
  PreparedInstruction prepare(const Instruction& instruction);
  void prepare(const Function& function);
  void prepare_branch(PreparedInstruction& branch) const;
  /// Counts its operands and the arguments that it passes on.
  std::size_t pointers_of(const Instruction& instruction) const;

  const Program& program_;
  const bool queues_are_direct_;
  std::vector<std::shared_ptr<const Kernel>> kernels_;
  std::vector<PreparedFunction> functions_;
  std::size_t num_pointers_ = 0, num_rows_ = 0, num_transfers_ = 0;
  std::int32_t num_loop_counters_ = 0;
};

}  // namespace pando
