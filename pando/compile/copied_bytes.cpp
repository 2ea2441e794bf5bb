#include "pando/compile/copied_bytes.hpp"

#include "pando/program/check_tables.hpp"

namespace pando {
namespace {

/// The load whose value, as it is, is all that `program` stores; nullptr: there is none.
const ScalarInstruction* stored_load(const ScalarProgram& program) {
  const ScalarInstruction* stored = nullptr;
  for (const ScalarInstruction& in : program.instructions) {
    if (in.op != ScalarOp::Store) continue;
    if (stored != nullptr) return nullptr;
    stored = &in;
  }
  if (stored == nullptr) return nullptr;
  const ScalarInstruction* value = stored;
  do {
    value = &program.instructions[static_cast<std::size_t>(value->a)];
  } while (value->op == ScalarOp::Round && value->dtype == stored->dtype);
  return value->op == ScalarOp::Load && value->dtype == stored->dtype ? value : nullptr;
}

}  // namespace

CopiedBytes copied_bytes(const KernelSpec& spec) {
  if (spec.outputs.size() != 1) return {};
  std::size_t input = 0;
  if (spec.kind == "Fused") {
    const ScalarInstruction* load = stored_load(spec.scalar);
    if (load == nullptr) return {};
    input = static_cast<std::size_t>(load->index);
  } else if (spec.kind != "Copy") {
    return {};
  }
  const OperandDesc &from = spec.inputs[input], &to = spec.outputs[0];
  const bool is_plain = from.dtype == to.dtype && from.shape == to.shape && from.is_contiguous() &&
                        to.is_contiguous();
  if (!is_plain) return {};
  return {program_check::checked_bytes(to.dtype, to.shape), input, spec.inputs.size()};
}

}  // namespace pando
