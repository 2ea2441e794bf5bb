// The fused machine: pointwise programs, copies and fills in one pass over memory.
#pragma once

#include <memory>

#include "pando/backends/cpu/machine_code.hpp"
#include "pando/program/kernel.hpp"
#include "pando/program/program.hpp"

namespace pando::cpu {

/// Kernel of one of three kinds.
/// `Fused`: `spec.scalar` over the shape of the outputs. Inputs have that shape with any strides (0
/// where they broadcast); outputs any strides without repeats. An output may be the same memory as
/// inputs of the same layout and element size, not as another output. Inputs of `spec.products` are
/// computed in pieces that stay in the first cache level; sums run over the depth in order.
/// Products with a place are for make_product_kernel (kernels/product_kernel.hpp). `Copy`: input 0
/// into output 0, same dtype and shape, any strides. `Fill`: attribute "value" (Number) into every
/// element of output 0, converted to its dtype.
///
/// Results do not depend on the number of threads, nor on how ops were grouped. Throws Error for
/// shapes that differ, NotSupported for complex pointwise arithmetic.
std::unique_ptr<HostKernel> make_fused_kernel(const KernelSpec& spec, int num_threads,
                                              MachineCode machine_code = MachineCode::Automatic);

/// Rows and columns of a matrix. All dimensions of a shape but the last one number its rows.
struct MatrixPart {
  std::int64_t row = 0, rows = 0;
  std::int64_t column = 0, columns = 0;
};

/// A `Fused` kernel that runs on parts of its matrices, several at the same time.
class FusedParts {
 public:
  virtual ~FusedParts() = default;
  /// Of each part that runs.
  virtual std::size_t scratch_bytes() const = 0;
  virtual void run_part(std::byte* const* operands, std::byte* scratch,
                        const MatrixPart& part) const = 0;
  virtual std::string explain() const = 0;
};

/// `spec`: without products, of two columns or more, with a program whose values do not depend on
/// the number of an element.
std::unique_ptr<FusedParts> make_fused_parts(const KernelSpec& spec, MachineCode machine_code);

/// The parts behind it: kinds `Copy` and `Fill`.
std::unique_ptr<HostKernel> make_copy_kernel(const KernelSpec& spec, int num_threads);
std::unique_ptr<HostKernel> make_fill_kernel(const KernelSpec& spec, int num_threads);

}  // namespace pando::cpu
