#include "pando/steps/step_verifier.hpp"

#include <algorithm>
#include <utility>

#include "pando/steps/step_checker.hpp"

namespace pando {
namespace {

std::vector<ArgumentNeed> needs_of(const StepFunction& function) {
  std::vector<ArgumentNeed> needs(static_cast<std::size_t>(function.num_arguments));
  for (const Storage& storage : function.storages) {
    if (storage.kind != Storage::Kind::Argument) continue;
    needs[static_cast<std::size_t>(storage.slot)] = {storage.bytes, storage.device};
  }
  for (const StepInstruction& in : function.instructions) {
    for (const StepOperand& operand : in.operands) {
      if (operand.storage < 0 || operand.read_only) continue;
      const Storage& storage = function.storage_of(operand);
      if (storage.kind != Storage::Kind::Argument) continue;
      needs[static_cast<std::size_t>(storage.slot)].is_written = true;
    }
  }
  return needs;
}

void check_program_lines(const StepProgram& program) {
  using program_check::require;
  using program_check::require_index;
  const Program& tables = program.tables;
  program_check::check_tables(tables);
  require(static_cast<std::size_t>(tables.devices) == program.device_numbers.size(),
          "another number of devices than device numbers");
  require(program.prefetch_bytes >= 0 && program.prefetch_bytes <= program_check::kMostBytes,
          "the bytes of early loads");
  require(std::is_sorted(tables.persistent.begin(), tables.persistent.end(),
                         [](const PersistentTensor& a, const PersistentTensor& b) {
                           return std::pair(a.device, a.offset) < std::pair(b.device, b.offset);
                         }),
          "tensors of persistent memory out of order");
  require_index(tables.main_function, program.functions, "main function");
  for (const std::int32_t entry : tables.entry_functions()) {
    require_index(entry, program.functions, "entry function");
  }
}

}  // namespace

void check_steps(const StepProgram& program) {
  check_program_lines(program);
  std::vector<std::vector<program_check::Extent>> extents;
  extents.reserve(program.tables.kernels.size());
  for (const KernelSpec& spec : program.tables.kernels) {
    extents.push_back(program_check::extents_of(spec));
  }
  std::vector<std::vector<ArgumentNeed>> needs;
  OrderChecker::Numbers numbers;
  for (std::size_t i = 0; i < program.functions.size(); ++i) {
    OrderChecker order(program, i);
    order.check_storages();
    OperandChecker(program, i, extents, needs).run();
    order.check_order(numbers);
    needs.push_back(needs_of(program.functions[i]));
  }
}

void verify(const StepProgram& program, const std::string& stage) {
  try {
    check_steps(program);
  } catch (const InternalError&) {
    throw;
  } catch (const Error& error) {
    throw InternalError(str_cat(stage.empty() ? "" : str_cat("after ", stage, ": "), error.what()));
  }
}

}  // namespace pando
