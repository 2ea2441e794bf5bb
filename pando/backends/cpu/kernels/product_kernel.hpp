// Matrix products with a program as their epilogue.
#pragma once

#include <memory>
#include <optional>

#include "pando/backends/cpu/machine_code.hpp"
#include "pando/program/kernel.hpp"
#include "pando/program/program.hpp"
#include "pando/program/target.hpp"

namespace pando::cpu {

/// See Target::computes_inside.
ProductUse product_use(const KernelSpec& fused, std::size_t input, const KernelSpec& product);

/// Kernel of kind `Fused` whose one product is made in an output: a kernel for products runs the
/// program on parts of its result while they are in the cache. A row vector that the program adds
/// to the product is added by that kernel instead.
std::unique_ptr<HostKernel> make_product_kernel(const KernelSpec& spec, int num_threads,
                                                MachineCode machine_code);

/// See Target::prepared_input, for such a kernel.
std::optional<PreparedInput> prepared_matrix(const KernelSpec& spec, int num_threads);

}  // namespace pando::cpu
