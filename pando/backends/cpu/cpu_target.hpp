// The target whose kernels run on the host CPU.
#pragma once

#include <memory>

#include "pando/program/device_options.hpp"
#include "pando/program/target.hpp"

namespace pando {

/// `num_threads` workers per kernel; 0 takes one per available core. The only option,
/// `machine_code`, is "auto", "never" or "always": see MachineCode. Throws ValueError for a
/// negative number and other options. Implementations by kind: kernel_table.hpp.
std::shared_ptr<Target> make_cpu_target(int num_threads, const DeviceOptions& options = {});

}  // namespace pando
