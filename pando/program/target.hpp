// What the compiler knows of the machine that will run the program. Needs no such machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "pando/program/kernel.hpp"
#include "pando/program/program.hpp"

namespace pando {

/// A weight in the layout that a kernel wants it in, which another kernel gives it.
struct PreparedInput {
  std::int32_t input = 0;
  KernelSpec maker;  // that input of the kernel -> one contiguous output
  KernelSpec user;   // the kernel, with what was made as that input
  /// What was made -> the same bytes that `maker` read, in the layout that it read them in.
  /// nullopt: they are lost.
  std::optional<KernelSpec> restorer = {};
};

class Target {
 public:
  virtual ~Target() = default;
  virtual std::string name() const = 0;
  /// Equal for two targets only if both prepare every spec to the same kernel with the same
  /// scratch: versions of libraries, processor, threads. A stored program is for one identity.
  virtual std::string identity() const = 0;
  virtual bool has_kernel(std::string_view kind) const = 0;
  /// `operand` counts inputs, then outputs.
  virtual AcceptedLayout accepted_layout(const KernelSpec& spec, int operand) const = 0;
  /// The output that may be the same memory as input `input` (same bytes, same layout); -1: none.
  /// It is the same output for all inputs of a kernel that have one.
  virtual int output_over(const KernelSpec& spec, int input) const = 0;
  /// Most ops of one Fused kernel.
  virtual std::size_t most_fused_ops() const = 0;
  /// How the Fused kernel `fused` may compute its input `input`, the result of the MatMul kernel
  /// `product`, and be no slower for it. InOutput: the input has its last dimension and as many
  /// elements, and `fused` an output of the same layout.
  virtual ProductUse computes_inside(const KernelSpec& fused, std::size_t input,
                                     const KernelSpec& product) const = 0;
  /// The operands of `spec` that may all be (N, spatial..., C) instead, with which the kernel is no
  /// slower: see channels_last.hpp for what the kernel is then.
  virtual KernelImages images_of(const KernelSpec& spec) const = 0;
  /// The input that `spec` would lay out again in each run, to be laid out once where it stays the
  /// same in many.
  virtual std::optional<PreparedInput> prepared_input(const KernelSpec& spec) const = 0;
  /// Of all such inputs of a program together whose weights are then there twice.
  virtual std::int64_t most_prepared_bytes() const = 0;
  /// Whether kernels leave out what lies outside of their bands (attributes `band`, `out_band`,
  /// ...).
  virtual bool skips_outside_bands() const = 0;
  /// An equal result of at most so many bytes is kept rather than computed again.
  virtual std::size_t most_shared_bytes() const = 0;
  /// Prepared kernels are cached by spec. Throws Error (unsupported combination, naming it).
  virtual std::shared_ptr<const Kernel> prepare(const KernelSpec& spec) = 0;
  /// Worker threads a kernel may use.
  virtual int num_threads() const = 0;
  /// Whether operands of kernels may be memory of the host. If not, all are memory of the device.
  virtual bool kernels_use_host_memory() const = 0;
  /// Whether kernels of one virtual device may use the memory of another one. If not, values are
  /// sent from one to the other.
  virtual bool devices_share_memory() const = 0;
};

}  // namespace pando
