// Runs the functions of a program on one virtual device.
#pragma once

#include <cstddef>
#include <vector>

#include "pando/program/program.hpp"
#include "pando/runtime/device_signals.hpp"
#include "pando/runtime/finite_checks.hpp"
#include "pando/runtime/host_transfers.hpp"
#include "pando/runtime/prepared_program.hpp"
#include "pando/runtime/program_collectives.hpp"
#include "pando/runtime/program_memory.hpp"
#include "pando/runtime/remote_transfers.hpp"
#include "pando/runtime/run_profile.hpp"
#include "pando/runtime/virtual_device.hpp"

namespace pando {

/// What the executors of a replica's devices share.
struct ReplicaParts {
  const PreparedProgram& prepared;
  ProgramMemory& memory;
  HostTransfers& host;
  RemoteTransfers& remote;
  ProgramCollectives& collectives;
  DeviceSignals* signals = nullptr;             // of several devices
  RunProfile* profile = nullptr;                // when asked for
  const FiniteChecks* finite_checks = nullptr;  // when asked for
  bool flush_denormals = true;
};

/// Used by the thread of its device.
class alignas(64) Executor {
 public:
  /// Keeps references to `device` and to all parts. All are made before the first run.
  Executor(const ReplicaParts& parts, VirtualDevice& device);
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  /// The device's part of an entry function; all that its queue was asked for is then done. Throws
  /// what instructions and StopPoll do.
  void run(int entry_function);

 private:
  /// A function that runs.
  struct Activation {
    int function;
    const PreparedFunction& prepared;
    std::byte* const* frames;  // by device
    std::byte* const* arguments;
    std::byte* const* resolved;  // its operands, if it is an entry function
  };

  void resolve(int entry_function);
  void resolve(int entry_function, const PreparedInstruction& instruction);
  void run_function(int function, std::byte* const* frames, std::byte* const* arguments);
  void run_instruction(const Activation& running, std::size_t index);
  void execute(const PreparedInstruction& prepared, std::byte* const* operands,
               std::byte* const* frames);
  void run_kernel(const PreparedInstruction& prepared, std::byte* const* operands);
  void start_kernel(const PreparedInstruction& prepared, std::byte* const* operands);
  void run_loop(const PreparedInstruction& prepared, std::byte* const* operands,
                std::byte* const* frames);
  /// Whether a loop that ends early has another iteration; all its devices hear the same.
  bool goes_on(const Instruction& loop, std::byte* const* operands);
  /// After the last iteration of such a loop: what ends in its other places is copied to A.
  void collect_results(const Instruction& loop, std::byte* const* operands);
  void run_if(const PreparedInstruction& prepared, std::byte* const* operands,
              std::byte* const* frames);
  bool condition_of(const PreparedInstruction& branch, std::byte* const* operands) const;
  std::byte** arguments_of(const PreparedInstruction& prepared) {
    return pointers_.data() + prepared.first_pointer + prepared.num_operands;
  }
  /// Those of what `call` calls; `frames`: of the caller.
  std::byte* const* callee_frames(const PreparedInstruction& call, std::byte* const* frames);

  const ReplicaParts parts_;
  const PreparedProgram& prepared_;
  VirtualDevice& device_;
  const ProgramMemory& memory_;
  RunProfile* const profile_;
  /// Entry functions run in one place: their operands' addresses are resolved once. By function;
  /// empty: another one.
  std::vector<std::vector<std::byte*>> resolved_;
  std::vector<std::byte*> pointers_;  // see PreparedProgram::num_pointers
};

}  // namespace pando
