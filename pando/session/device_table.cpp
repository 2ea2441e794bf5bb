#include "pando/session/device_table.hpp"

#include <map>
#include <mutex>
#include <utility>

#include "pando/backends/cpu/cpu_device.hpp"
#include "pando/backends/cpu/cpu_target.hpp"
#include "pando/base/error.hpp"

namespace pando {
namespace {

void refuse_argument(const DeviceSettings& settings) {
  if (settings.argument.empty()) return;
  throw ValueError(str_cat("the device 'cpu' takes no argument; given '", settings.argument, "'"));
}

DeviceKind cpu_kind() {
  const auto make_target = [](const DeviceSettings& settings) {
    refuse_argument(settings);
    return make_cpu_target(settings.num_threads, settings.options);
  };
  const auto make_device = [](const DeviceSettings&, const Target& target) {
    return make_cpu_device(target.num_threads());
  };
  return {make_target, make_device};
}

struct DeviceTable {
  std::mutex mutex;
  std::map<std::string, DeviceKind, std::less<>> kinds = {
      {"cpu", cpu_kind()},
  };
};

DeviceTable& device_table() {
  static DeviceTable table;
  return table;
}

}  // namespace

DeviceKind device_kind(const std::string& device, DeviceSettings& settings) {
  const std::size_t colon = device.find(':');
  settings.argument = colon == std::string::npos ? "" : device.substr(colon + 1);
  DeviceTable& table = device_table();
  const std::lock_guard lock(table.mutex);
  const auto found = table.kinds.find(device.substr(0, colon));
  if (found != table.kinds.end()) return found->second;
  std::string names;
  for (const auto& [name, kind] : table.kinds) names += str_cat(names.empty() ? "" : ", ", name);
  throw ValueError(str_cat("there is no device '", device, "'; the kinds are: ", names));
}

void add_device_kind(const std::string& name, DeviceKind kind) {
  DeviceTable& table = device_table();
  const std::lock_guard lock(table.mutex);
  table.kinds[name] = std::move(kind);
}

}  // namespace pando
