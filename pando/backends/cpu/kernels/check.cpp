// CheckRange.
#include <cstring>

#include "pando/backends/cpu/kernel_table.hpp"
#include "pando/base/error.hpp"

namespace pando::cpu {
namespace {

KernelPlan make_check_range(const KernelRequest& request) {
  const std::int64_t low = request.attributes().integer("low");
  const std::int64_t end = request.attributes().integer("end");
  const std::string what = request.attributes().text("what");
  KernelPlan plan;
  plan.run = [low, end, what](std::byte* const* operands, std::byte*) {
    std::int32_t value = 0;
    std::memcpy(&value, operands[0], sizeof value);
    if (value < low || value >= end) {
      throw ApplicationFault(
          str_cat(what, ": wanted a value of ", low, " to ", end - 1, ", given ", value));
    }
    std::memcpy(operands[1], &value, sizeof value);
  };
  return plan;
}

}  // namespace

void register_check_kernels(KernelTable& table) {
  table["CheckRange"] = {{{"reference", make_check_range}}};
}

}  // namespace pando::cpu
