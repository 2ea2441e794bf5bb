// Checks of one function, in parts: see step_verifier.hpp for the rules.
#pragma once

#include <string>
#include <vector>

#include "pando/base/error.hpp"
#include "pando/program/check_tables.hpp"
#include "pando/steps/step_function.hpp"

namespace pando {

/// What all checks of a function share.
class StepChecker {
 public:
  StepChecker(const StepProgram& program, std::size_t index)
      : program_(program), function_(program.functions[index]), index_(index) {}

 protected:
  template <class... Parts>
  [[noreturn]] void fail(const Parts&... parts) const {
    const std::string at = str_cat("function ", index_, " ('", function_.name, "')");
    if (at_ < 0) throw Error(str_cat(at, ": ", parts...));
    const StepInstruction& in = function_.instructions[static_cast<std::size_t>(at_)];
    throw Error(str_cat(at, ", instruction ", at_, " (", step_word(in.kind), "): ", parts...));
  }
  template <class... Parts>
  void require(bool condition, const Parts&... parts) const {
    if (!condition) fail(parts...);
  }
  const Storage& storage(std::int32_t index) const {
    return function_.storages[static_cast<std::size_t>(index)];
  }

  const StepProgram& program_;
  const StepFunction& function_;
  std::size_t index_;
  std::int32_t at_ = -1;  // the instruction that is looked at; -1: none
};

/// What a callee wants of its arguments.
struct ArgumentNeed {
  std::int64_t bytes = 0;
  std::int32_t device = 0;
  bool is_written = false;
};

/// Indices, numbers and sizes of operands.
class OperandChecker : private StepChecker {
 public:
  /// `extents`: by kernel. `needs`: by function before this one, by argument.
  OperandChecker(const StepProgram& program, std::size_t index,
                 const std::vector<std::vector<program_check::Extent>>& extents,
                 const std::vector<std::vector<ArgumentNeed>>& needs)
      : StepChecker(program, index), extents_(extents), needs_(needs) {}

  void run();

 private:
  using Extent = program_check::Extent;

  void check(const StepInstruction& in) const;
  void check_fields(const StepInstruction& in) const;
  void check_target(const StepInstruction& in) const;
  void check_operands(const StepInstruction& in) const;
  void check_kernel(const StepInstruction& in) const;
  void check_host_call(const StepInstruction& in) const;
  void check_transfer(const StepInstruction& in) const;
  void check_call(const StepInstruction& in) const;
  void check_loop(const StepInstruction& in) const;
  void check_branch(const StepInstruction& in) const;
  std::size_t check_conditions(const StepInstruction& in, std::size_t arguments) const;
  void check_device(const StepInstruction& in, const StepOperand& operand) const;
  bool separates_devices() const;
  void require_operands(const StepInstruction& in, std::size_t count) const;
  void reads(const StepInstruction& in, std::size_t operand, Extent extent) const;
  void writes(const StepInstruction& in, std::size_t operand, Extent extent) const;
  void passes(const StepInstruction& in, std::size_t operand, std::int32_t callee,
              std::size_t argument) const;

  const std::vector<std::vector<Extent>>& extents_;
  const std::vector<std::vector<ArgumentNeed>>& needs_;
};

/// Storages, and the order in which they are used.
class OrderChecker : private StepChecker {
 public:
  using StepChecker::StepChecker;

  /// By number, whether a function before this one has it.
  struct Numbers {
    std::vector<bool> rows, transfers, sends;
  };

  /// Before operands are looked at.
  void check_storages() const;
  /// After that.
  void check_order(Numbers& numbers);

 private:
  void check_storage(std::size_t index) const;
  bool is_persistent(const Storage& s) const;
  void check_written();
  void check_transfers(std::vector<bool>& transfers);
  void check_sends(std::vector<bool>& sends);
  void check_rows(std::vector<bool>& rows);
  void take_number(std::vector<bool>& numbers, std::int32_t number, const char* what) const;
  void check_row_writes(const StepInstruction& load) const;
  void check_plan();
  void check_callee_frames(const StepInstruction& in) const;
  void check_overlap();
  void check_streams();
};

}  // namespace pando
