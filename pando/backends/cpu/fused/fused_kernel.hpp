// The fused machine: runs a ScalarProgram over L1-sized tiles.
#pragma once

#include <memory>

#include "pando/program/backend.hpp"

namespace pando::cpu {

/// Kernel for kind `Fused`. Inputs and outputs may have any strides; an output may be the same
/// memory as an input of the same layout. Results do not depend on the number of threads.
std::shared_ptr<const Kernel> make_fused_kernel(const KernelSpec& spec, int num_threads);

/// Kernel for kind `Copy`: strided to strided, same dtype and shape.
std::shared_ptr<const Kernel> make_copy_kernel(const KernelSpec& spec, int num_threads);

/// Kernel for kind `Fill`: attribute "value" in every element of output 0.
std::shared_ptr<const Kernel> make_fill_kernel(const KernelSpec& spec, int num_threads);

}  // namespace pando::cpu
