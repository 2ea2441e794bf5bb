// A device that has nothing in common with the host but the queues between them, for tests.
//
// The host cannot read its memory: those pages are protected, and only the device's own workers use
// another mapping of them. Each queue has a worker that does nothing until somebody waits for it,
// or until chance, from a seed, lets it go a part of the way. Kernels are the CPU's.
#pragma once

#include <cstdint>
#include <memory>

#include "pando/program/device_options.hpp"
#include "pando/program/target.hpp"
#include "pando/runtime/device.hpp"
#include "pando/session/device_table.hpp"

namespace pando::testing {

struct FakeSettings {
  std::uint64_t seed = 1;
  /// The item of work, counted from 0 over all queues, that fails; -1: none does.
  std::int64_t fails_at = -1;
};

std::shared_ptr<Target> make_fake_target(int num_threads, const DeviceOptions& options = {});
std::unique_ptr<Device> make_fake_device(const FakeSettings& settings);

/// Sessions run it as "fake", "fake:SEED" and "fake:SEED:FAILS_AT".
DeviceKind fake_device_kind();
/// Lets sessions do so.
void add_fake_device_kind();

}  // namespace pando::testing
