#include "pando/session/device_table.hpp"

#include <map>
#include <mutex>
#include <utility>

#include "pando/base/error.hpp"

namespace pando {

#define PANDO_DEVICE_KIND(name, function) DeviceKind function();
#include "pando/session/device_kinds.def"

namespace {

struct DeviceTable {
  std::mutex mutex;
  std::map<std::string, DeviceKind, std::less<>> kinds = {
#define PANDO_DEVICE_KIND(name, function) {name, function()},
#include "pando/session/device_kinds.def"
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
