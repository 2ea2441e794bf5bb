// The interface between the compiled program and the machine that runs it.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "pando/program/program.hpp"

namespace pando {

/// A prepared kernel. Stateless: several sessions and threads may run one at the same time.
class Kernel {
 public:
  virtual ~Kernel() = default;
  /// `operands`: inputs, then outputs; nullptr for inputs that are not connected. `scratch`:
  /// 64-byte aligned memory of scratch_bytes().
  virtual void run(std::byte* const* operands, std::byte* scratch) const = 0;
  virtual std::size_t scratch_bytes() const { return 0; }
  /// Which implementation was chosen, and why not the ones before it in the list.
  virtual std::string explain() const = 0;
};

/// Which operand layouts a kernel kind takes without a copy.
enum class AcceptedLayout : std::uint8_t {
  Contiguous,
  /// Batch dimensions C-ordered, the last two in either order (matrix operands).
  MatrixAnyOrder,
  AnyStrides,
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string name() const = 0;
  /// Equal for two backends only if both prepare every spec to the same kernel with the same
  /// scratch: versions of libraries, processor, threads. A stored program is for one identity.
  virtual std::string identity() const = 0;
  virtual bool has_kernel(std::string_view kind) const = 0;
  /// `operand` counts inputs, then outputs.
  virtual AcceptedLayout accepted_layout(const KernelSpec& spec, int operand) const = 0;
  /// Whether output 0 may be the same memory as input `input` (same bytes, same layout).
  virtual bool can_run_in_place(const KernelSpec& spec, int input) const = 0;
  /// Prepared kernels are cached by spec. Throws Error (unsupported combination, naming it).
  virtual std::shared_ptr<const Kernel> prepare(const KernelSpec& spec) = 0;
  /// Worker threads a kernel may use.
  virtual int num_threads() const = 0;
  /// On the worker threads, from the thread that runs kernels. The two must not overlap.
  virtual void copy(const std::byte* from, std::byte* to, std::size_t bytes) const = 0;
};

}  // namespace pando
