// Kernels on images, and what they are with channels last.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "pando/compile/kernel_numbers.hpp"
#include "pando/program/target.hpp"

namespace pando {

/// The same elements, (N, C, spatial...), as (N, spatial..., C).
OperandDesc channels_last_view(const OperandDesc& image);
std::int64_t image_bytes(const OperandDesc& image);
/// Whether the two are the same in memory in either layout, however many spatial dimensions they
/// have.
bool is_same_image(const OperandDesc& a, const OperandDesc& b);

class ImageKernels {
 public:
  ImageKernels(Program& tables, const Target& target) : kernels_(tables), target_(target) {}

  /// Whether operand `operand` of the kernel is an image that lies in memory in another order with
  /// channels last.
  bool is_image(std::int32_t kernel, std::size_t operand);
  bool has_images(std::int32_t kernel) { return about(kernel).has_images; }
  /// Bytes of the images that the kernel itself reorders.
  std::int64_t reordered_bytes(std::int32_t kernel) { return about(kernel).reordered_bytes; }

  std::size_t num_inputs(std::int32_t kernel) const { return kernels_[kernel].inputs.size(); }
  OperandDesc operand(std::int32_t kernel, std::size_t operand) const;
  /// The kernel with channels last.
  std::int32_t with_channels_last(std::int32_t kernel);
  /// A kernel that copies an image from channels first to channels last, or back.
  std::int32_t copy(const OperandDesc& image, bool to_last);

 private:
  struct About {
    std::vector<bool> is_image;  // by operand
    bool has_images = false;
    std::int64_t reordered_bytes = 0;
    std::int32_t last = -1;  // the same with channels last, once asked for
  };
  About& about(std::int32_t kernel);

  KernelNumbers kernels_;
  const Target& target_;
  std::vector<std::optional<About>> about_;  // by kernel
};

}  // namespace pando
