#include "pando/backends/cpu/fused/fused_kernel.hpp"

#include "pando/backends/cpu/fused/fused_body.hpp"
#include "pando/base/error.hpp"

namespace pando::cpu {
namespace {

class FusedKernel final : public HostKernel {
 public:
  FusedKernel(const KernelSpec& spec, int num_threads, MachineCode machine_code)
      : body_(spec, num_threads, machine_code, false) {}

  std::size_t scratch_bytes() const override {
    return body_.part_bytes() * static_cast<std::size_t>(body_.num_parts());
  }
  void run(std::byte* const* operands, std::byte* scratch) const override {
    body_.run(operands, scratch);
  }
  std::string explain() const override { return body_.explain(); }

 private:
  FusedBody body_;
};

class FusedMatrixParts final : public FusedParts {
 public:
  FusedMatrixParts(const KernelSpec& spec, MachineCode machine_code)
      : body_(spec, 1, machine_code, true) {
    internal_check(!body_.numbers_elements(), "parts do not know the numbers of their elements");
  }

  std::size_t scratch_bytes() const override { return body_.part_bytes(); }
  void run_part(std::byte* const* operands, std::byte* scratch,
                const MatrixPart& part) const override {
    body_.run_matrix_part(operands, scratch, part);
  }
  std::string explain() const override { return body_.explain(); }

 private:
  FusedBody body_;
};

}  // namespace

std::unique_ptr<FusedParts> make_fused_parts(const KernelSpec& spec, MachineCode machine_code) {
  return std::make_unique<FusedMatrixParts>(spec, machine_code);
}

std::unique_ptr<HostKernel> make_fused_kernel(const KernelSpec& spec, int num_threads,
                                              MachineCode machine_code) {
  if (spec.kind == "Copy") return make_copy_kernel(spec, num_threads);
  if (spec.kind == "Fill") return make_fill_kernel(spec, num_threads);
  internal_check(spec.kind == "Fused" && !spec.outputs.empty(),
                 "a fused kernel needs kind Fused and an output");
  return std::make_unique<FusedKernel>(spec, num_threads, machine_code);
}

}  // namespace pando::cpu
