// Prepared kernels, and what they take.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace pando {

/// A prepared kernel, for the queues of the target's devices. Stateless: several sessions and
/// threads may run one at the same time.
class Kernel {
 public:
  virtual ~Kernel() = default;
  /// The size of the memory, 64-byte aligned, that it uses while it runs.
  virtual std::size_t scratch_bytes() const { return 0; }
  /// Which implementation was chosen, and why not the ones before it in the list.
  virtual std::string explain() const = 0;
};

/// A kernel that is a function of this process, for memory that the process may dereference.
class HostKernel : public Kernel {
 public:
  /// `operands`: inputs, then outputs; nullptr for inputs that are not connected. `scratch`: see
  /// scratch_bytes.
  virtual void run(std::byte* const* operands, std::byte* scratch) const = 0;
};

/// Which operand layouts a kernel kind takes without a copy.
enum class AcceptedLayout : std::uint8_t {
  Contiguous,
  /// Batch dimensions C-ordered, the last two in either order (matrix operands).
  MatrixAnyOrder,
  AnyStrides,
};

/// How a fused kernel may compute a product that nothing else reads (see ProductInput).
enum class ProductUse : std::uint8_t {
  None,      // the product is a kernel of its own
  InPieces,  // piece by piece where it is read
  InOutput,  // in the memory of an output
};

/// The operands of a kernel that are images: contiguous, of shape (N, C, spatial...).
struct KernelImages {
  /// Inputs, then outputs; empty where the kernel takes them in this layout only.
  std::vector<std::int32_t> operands;
  /// Those of them that the kernel itself brings into another order, or back from one.
  std::vector<std::int32_t> reordered;
};

}  // namespace pando
