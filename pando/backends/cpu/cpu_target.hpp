// The target whose kernels run on the host CPU.
#pragma once

#include <memory>

#include "pando/backends/cpu/machine_code.hpp"
#include "pando/program/target.hpp"

namespace pando {

/// `num_threads` workers per kernel; 0 takes one per available core. Throws ValueError when
/// negative. Implementations by kind: kernel_table.hpp.
std::shared_ptr<Target> make_cpu_target(int num_threads,
                                        MachineCode machine_code = MachineCode::Automatic);

}  // namespace pando
