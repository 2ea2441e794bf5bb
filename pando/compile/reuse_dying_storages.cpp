#include "pando/compile/reuse_dying_storages.hpp"

#include <algorithm>
#include <numeric>

namespace pando {
namespace {

bool is_same_layout(const OperandDesc& a, const OperandDesc& b) {
  return a.shape == b.shape && a.strides == b.strides &&
         dtype_bytes(a.dtype) == dtype_bytes(b.dtype);
}

std::int64_t bytes_of(const OperandDesc& desc) {
  return num_elements(desc.shape) * static_cast<std::int64_t>(dtype_bytes(desc.dtype));
}

class StorageReuse {
 public:
  StorageReuse(const Program& tables, StepFunction& function)
      : tables_(tables),
        function_(function),
        first_use_(function.storages.size(), -1),
        last_use_(function.storages.size(), -1),
        place_(function.storages.size()) {
    std::iota(place_.begin(), place_.end(), 0);
  }

  void run() {
    find_uses();
    for (std::size_t i = 0; i < function_.instructions.size(); ++i) {
      StepInstruction& in = function_.instructions[i];
      for (StepOperand& operand : in.operands) {
        if (operand.storage >= 0) operand.storage = place_[index(operand)];
      }
      if (in.kind == Instruction::Kind::Kernel) reuse(in, static_cast<std::int32_t>(i));
    }
  }

 private:
  static std::size_t index(const StepOperand& operand) {
    return static_cast<std::size_t>(operand.storage);
  }

  void find_uses() {
    for (std::size_t i = 0; i < function_.instructions.size(); ++i) {
      for (const StepOperand& operand : function_.instructions[i].operands) {
        if (operand.storage < 0) continue;
        last_use_[index(operand)] = static_cast<std::int32_t>(i);
        std::int32_t& first = first_use_[index(operand)];
        if (first < 0) first = static_cast<std::int32_t>(i);
      }
    }
  }

  void reuse(StepInstruction& in, std::int32_t at) {
    const KernelSpec& spec = tables_.kernels[static_cast<std::size_t>(in.target)];
    if (spec.kind == "Fused") {
      for (std::size_t output = 0; output < spec.outputs.size(); ++output) {
        bool is_done = spec.makes_product_in(output);
        for (std::size_t input = 0; input < spec.num_loaded_inputs() && !is_done; ++input) {
          is_done = take_input(in, spec, at, output, input);
        }
      }
      return;
    }
    for (const std::int32_t input : in.in_place) {
      const auto output = static_cast<std::size_t>(in.in_place_output);
      if (take_input(in, spec, at, output, static_cast<std::size_t>(input))) return;
    }
  }

  /// Whether the output now has the storage of the input.
  bool take_input(StepInstruction& in, const KernelSpec& spec, std::int32_t at, std::size_t output,
                  std::size_t input) {
    const OperandDesc& layout = spec.outputs[output];
    StepOperand& to = in.operands[spec.inputs.size() + output];
    const StepOperand from = in.operands[input];
    if (from.storage < 0 || !is_same_layout(spec.inputs[input], layout)) return false;
    if (!is_whole(to, layout) || first_use_[index(to)] != at) return false;
    if (!is_whole(from, layout) || last_use_[index(from)] != at) return false;
    for (std::size_t i = 0; i < in.operands.size(); ++i) {
      const StepOperand& other = in.operands[i];
      if (&other != &to && other.storage == to.storage) return false;
      if (i == input || other.storage != from.storage) continue;
      const bool is_alike = spec.kind == "Fused" && i < spec.num_loaded_inputs() &&
                            is_same_layout(spec.inputs[i], layout) && other.offset == 0;
      if (!is_alike) return false;
    }
    Storage& storage = function_.storage_of(from);
    storage.starts_undefined =
        storage.starts_undefined || function_.storage_of(to).starts_undefined;
    last_use_[index(from)] = last_use_[index(to)];
    place_[index(to)] = from.storage;
    to.storage = from.storage;
    return true;
  }

  bool is_whole(const StepOperand& operand, const OperandDesc& layout) const {
    const Storage& storage = function_.storage_of(operand);
    return storage.kind == Storage::Kind::Local && storage.row < 0 && operand.offset == 0 &&
           layout.is_contiguous() && storage.bytes == bytes_of(layout);
  }

  const Program& tables_;
  StepFunction& function_;
  std::vector<std::int32_t> first_use_, last_use_;  // by storage
  std::vector<std::int32_t> place_;                 // the storage that each one is in by now
};

}  // namespace

void reuse_dying_storages(StepProgram& program) {
  for (StepFunction& function : program.functions) StorageReuse(program.tables, function).run();
}

}  // namespace pando
