#include "pando/compile/unused_kernels.hpp"

#include <algorithm>

namespace pando {

void remove_unused_kernels(StepProgram& program) {
  std::vector<KernelSpec>& kernels = program.tables.kernels;
  std::vector<std::int32_t> number(kernels.size(), -1);  // -1: unused
  const auto for_each_kernel = [&](auto use) {
    for (StepFunction& function : program.functions) {
      for (StepInstruction& in : function.instructions) {
        if (in.kind == Instruction::Kind::Kernel) use(in.target);
      }
    }
  };
  for_each_kernel([&](std::int32_t kernel) { number[static_cast<std::size_t>(kernel)] = 0; });
  if (std::find(number.begin(), number.end(), -1) == number.end()) return;
  std::size_t kept = 0;
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    if (number[i] < 0) continue;
    number[i] = static_cast<std::int32_t>(kept);
    if (kept != i) kernels[kept] = std::move(kernels[i]);
    ++kept;
  }
  kernels.resize(kept);
  for_each_kernel([&](std::int32_t& kernel) { kernel = number[static_cast<std::size_t>(kernel)]; });
}

}  // namespace pando
