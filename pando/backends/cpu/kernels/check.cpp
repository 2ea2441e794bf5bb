// CheckLog2Scale: the one kernel that judges a value of the running program.
#include <cstring>

#include "pando/backends/cpu/kernel_table.hpp"
#include "pando/base/error.hpp"

namespace pando::cpu {
namespace {

constexpr std::int32_t kLowest = -32, kBeyond = 32;

KernelPlan make_check_log2_scale(const KernelRequest& request) {
  if (request.input(0).dtype != DType::Int32 || num_elements(request.input(0).shape) != 1) {
    return KernelPlan::reject("the scale must be one int32");
  }
  KernelPlan plan;
  plan.run = [](std::byte* const* operands, std::byte*) {
    std::int32_t scale = 0;
    std::memcpy(&scale, operands[0], sizeof(scale));
    if (scale < kLowest || scale >= kBeyond) {
      throw ApplicationFault(str_cat(
          "the log2 scale of float8 values is ", scale, ": wanted ", kLowest, " to ", kBeyond - 1,
          "; change it, or set the session option throwIfLog2ScaleTensorNotInRange to "
          "False before the op is made"));
    }
    std::memmove(operands[1], operands[0], sizeof(scale));
  };
  return plan;
}

}  // namespace

void register_check_kernels(KernelTable& table) {
  table["CheckLog2Scale"] = {{{"scalar", make_check_log2_scale}}, AcceptedLayout::Contiguous, {0}};
}

}  // namespace pando::cpu
