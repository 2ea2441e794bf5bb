#include "pando/backends/cpu/kernels/product_program.hpp"

#include <algorithm>

namespace pando::cpu {
namespace {

class ProgramSplitter {
 public:
  explicit ProgramSplitter(const KernelSpec& spec)
      : spec_(spec), product_(spec.products.front()), program_(spec.scalar.instructions) {}

  ProductProgram run() {
    take_bias();
    split_.rest.kind = "Fused";
    (void)input(product_.value);
    find_needed();
    std::vector<ScalarValue> values(program_.size(), kNoValue);
    for (std::size_t i = 0; i < program_.size(); ++i) {
      if (!needed_[i]) continue;
      ScalarInstruction in = program_[i];
      for (ScalarValue* operand : {&in.a, &in.b, &in.c}) {
        if (*operand != kNoValue) *operand = values[static_cast<std::size_t>(*operand)];
      }
      if (in.op == ScalarOp::Load) in.index = input(in.index);
      if (in.op == ScalarOp::Store) in.index = output(in.index);
      values[i] = static_cast<ScalarValue>(split_.rest.scalar.instructions.size());
      split_.rest.scalar.instructions.push_back(in);
    }
    split_.operands = inputs_;
    for (const std::size_t output : outputs_) {
      split_.operands.push_back(spec_.inputs.size() + output);
    }
    split_.operands.front() = spec_.inputs.size() + static_cast<std::size_t>(product_.place);
    return std::move(split_);
  }

 private:
  const ScalarInstruction& at(ScalarValue value) const {
    return program_[static_cast<std::size_t>(value)];
  }
  bool is_product(ScalarValue value) const {
    return value != kNoValue && at(value).op == ScalarOp::Load && at(value).index == product_.value;
  }

  bool is_row(ScalarValue value) const {
    if (value == kNoValue || at(value).op != ScalarOp::Load) return false;
    const OperandDesc& desc = spec_.inputs[static_cast<std::size_t>(at(value).index)];
    for (std::size_t d = 0; d + 1 < desc.shape.size(); ++d) {
      if (desc.shape[d] != 1 && desc.strides[d] != 0) return false;
    }
    return desc.dtype == DType::Float32 && desc.strides.back() == 1 && !is_product(value);
  }

  /// Where the product is read only to add a row to it, the sum takes its place.
  void take_bias() {
    ScalarInstruction* sum = nullptr;
    int reads = 0;
    for (ScalarInstruction& in : program_) {
      for (const ScalarValue operand : {in.a, in.b, in.c}) {
        if (!is_product(operand)) continue;
        sum = &in;
        ++reads;
      }
    }
    if (reads != 1 || sum->op != ScalarOp::Add) return;
    const ScalarValue row = is_product(sum->a) ? sum->b : sum->a;
    if (!is_row(row)) return;
    split_.bias = static_cast<std::size_t>(at(row).index);
    ScalarInstruction load;
    load.op = ScalarOp::Load;
    load.index = product_.value;
    *sum = load;
  }

  /// What stores need, but for the one of the product as it is.
  void find_needed() {
    needed_.assign(program_.size(), false);
    for (std::size_t i = program_.size(); i-- > 0;) {
      const ScalarInstruction& in = program_[i];
      if (in.op == ScalarOp::Store) {
        needed_[i] = in.index != product_.place || !is_product(in.a);
      }
      if (!needed_[i]) continue;
      for (const ScalarValue operand : {in.a, in.b, in.c}) {
        if (operand != kNoValue) needed_[static_cast<std::size_t>(operand)] = true;
      }
    }
  }

  static std::int32_t number(std::vector<std::size_t>& known, std::int32_t index,
                             const std::vector<OperandDesc>& from, std::vector<OperandDesc>& to) {
    const auto wanted = static_cast<std::size_t>(index);
    const auto it = std::find(known.begin(), known.end(), wanted);
    const auto position = static_cast<std::int32_t>(it - known.begin());
    if (it != known.end()) return position;
    known.push_back(wanted);
    to.push_back(from[wanted]);
    return position;
  }
  std::int32_t input(std::int32_t index) {
    return number(inputs_, index, spec_.inputs, split_.rest.inputs);
  }
  std::int32_t output(std::int32_t index) {
    return number(outputs_, index, spec_.outputs, split_.rest.outputs);
  }

  const KernelSpec& spec_;
  const ProductInput& product_;
  std::vector<ScalarInstruction> program_;
  std::vector<bool> needed_;
  std::vector<std::size_t> inputs_, outputs_;  // of the kernel, by those of the rest
  ProductProgram split_;
};

}  // namespace

ProductProgram split_product_program(const KernelSpec& spec) { return ProgramSplitter(spec).run(); }

bool numbers_elements(const ScalarProgram& program) {
  return std::any_of(program.instructions.begin(), program.instructions.end(),
                     [](const ScalarInstruction& in) {
                       return in.op == ScalarOp::Iota || in.op == ScalarOp::Philox;
                     });
}

}  // namespace pando::cpu
