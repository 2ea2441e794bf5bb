#include "pando/backends/cpu/cpu_device_kind.hpp"

#include "pando/backends/cpu/cpu_device.hpp"
#include "pando/backends/cpu/cpu_target.hpp"
#include "pando/base/error.hpp"

namespace pando {
namespace {

void refuse_argument(const DeviceSettings& settings) {
  if (settings.argument.empty()) return;
  throw ValueError(str_cat("the device 'cpu' takes no argument; given '", settings.argument, "'"));
}

}  // namespace

DeviceKind cpu_device_kind() {
  const auto make_target = [](const DeviceSettings& settings) {
    refuse_argument(settings);
    return make_cpu_target(settings.num_threads, settings.options);
  };
  const auto make_device = [](const DeviceSettings&, const Target& target) {
    return make_cpu_device(target.num_threads());
  };
  return {make_target, make_device};
}

}  // namespace pando
