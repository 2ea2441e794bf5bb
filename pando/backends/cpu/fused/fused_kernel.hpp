// The fused machine: pointwise programs, copies and fills in one pass over memory.
#pragma once

#include <memory>

#include "pando/backends/cpu/machine_code.hpp"
#include "pando/program/target.hpp"

namespace pando::cpu {

/// Kernel of one of three kinds.
/// `Fused`: `spec.scalar` over the shape of the outputs. Inputs have that shape with any strides (0
/// where they broadcast); outputs any strides without repeats. An output may be the same memory as
/// inputs of the same layout and element size, not as another output. Inputs of `spec.products` are
/// computed in pieces that stay in the first cache level; sums run over the depth in order.
/// `Copy`: input 0 into output 0, same dtype and shape, any strides.
/// `Fill`: attribute "value" (Number) into every element of output 0, converted to its dtype.
///
/// Results do not depend on the number of threads, nor on how ops were grouped. Throws Error for
/// shapes that differ, NotSupported for complex pointwise arithmetic.
std::unique_ptr<HostKernel> make_fused_kernel(const KernelSpec& spec, int num_threads,
                                              MachineCode machine_code = MachineCode::Automatic);

/// The parts behind it: kinds `Copy` and `Fill`.
std::unique_ptr<HostKernel> make_copy_kernel(const KernelSpec& spec, int num_threads);
std::unique_ptr<HostKernel> make_fill_kernel(const KernelSpec& spec, int num_threads);

}  // namespace pando::cpu
