// The backend that runs kernels on the host CPU.
#pragma once

#include <memory>

#include "pando/backends/cpu/machine_code.hpp"
#include "pando/program/backend.hpp"

namespace pando {

/// `num_threads` workers per kernel; 0 takes one per available core. Throws ValueError when
/// negative. Implementations by kind: kernel_table.hpp.
std::shared_ptr<Backend> make_cpu_backend(int num_threads,
                                          MachineCode machine_code = MachineCode::Automatic);

}  // namespace pando
