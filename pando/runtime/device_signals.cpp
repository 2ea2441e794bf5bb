#include "pando/runtime/device_signals.hpp"

namespace pando {

DeviceSignals::DeviceSignals(DeviceTeam& team,
                             const std::vector<std::unique_ptr<VirtualDevice>>& devices,
                             RunProfile* profile)
    : team_(team), devices_(devices), signalled_(devices.size()), profile_(profile) {}

void DeviceSignals::signal(int device, int to) {
  const auto index = static_cast<std::size_t>(device);
  Queue& queue = devices_[index]->queue();
  if (!queue.is_direct()) signalled_[index] = queue.record();
  team_.signal(device, to);
}

void DeviceSignals::take(int device, int from) {
  team_.wait(device, from);
  Queue& queue = devices_[static_cast<std::size_t>(device)]->queue();
  if (queue.is_direct()) return;
  // Perhaps a later point than this signal's: no circle, as that work was asked for before.
  const auto sender = static_cast<std::size_t>(from);
  queue.wait_for(devices_[sender]->queue(), signalled_[sender]);
}

void DeviceSignals::wait(int device, int from) {
  if (profile_ == nullptr) return take(device, from);
  const double start = steady_seconds();
  take(device, from);
  profile_->exchanged(device, steady_seconds() - start);
}

bool DeviceSignals::decision(int device, int from) {
  if (profile_ == nullptr) return team_.decision(device, from);
  const double start = steady_seconds();
  const bool yes = team_.decision(device, from);
  profile_->exchanged(device, steady_seconds() - start);
  return yes;
}

void DeviceSignals::meet(const std::vector<std::int32_t>& devices, int device) {
  for (const std::int32_t other : devices) {
    if (other != device) signal(device, other);
  }
  for (const std::int32_t other : devices) {
    if (other != device) wait(device, other);
  }
}

void DeviceSignals::before_loop(const Function& body, int device) {
  for (const CarriedSignals& signals : body.carried_signals) {
    if (signals.from != device) continue;
    for (std::int32_t i = 0; i < signals.count; ++i) signal(device, signals.to);
  }
}

void DeviceSignals::after_loop(const Function& body, int device) {
  for (const CarriedSignals& signals : body.carried_signals) {
    if (signals.to != device) continue;
    for (std::int32_t i = 0; i < signals.count; ++i) wait(device, signals.from);
  }
}

}  // namespace pando
