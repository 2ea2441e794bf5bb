// The images that the kernels of a function give each other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "pando/compile/image_kernels.hpp"
#include "pando/steps/step_function.hpp"

namespace pando {

class ImageValues {
 public:
  ImageValues(const StepFunction& function, ImageKernels& kernels);

  /// Whether a kernel reorders any.
  bool has_reordered_images() const { return has_reordered_images_; }
  /// By instruction, whether it should have its images with channels last.
  std::vector<bool> choose_layouts();

  /// Whether that operand is an image that may have its channels last.
  bool is_image(std::size_t instruction, std::size_t operand) const;
  /// Whether the storage holds one image, written once, that all users can have in either layout.
  /// An image of another storage is copied for each use.
  bool is_shared(std::int32_t storage) const {
    return values_[static_cast<std::size_t>(storage)].is_shared;
  }
  /// What a shared storage holds, channels first.
  const OperandDesc& image(std::int32_t storage) const {
    return values_[static_cast<std::size_t>(storage)].image;
  }

 private:
  struct Value {
    bool is_used = false;
    bool is_shared = true;
    bool is_image = false;       // a kernel with images uses it
    bool is_used_first = false;  // by what takes images with channels first only
    std::int32_t device = -1;
    OperandDesc image;
  };

  bool has_images(const StepInstruction& in) const;
  void look_at(std::size_t instruction, std::size_t operand);

  const StepFunction& function_;
  ImageKernels& kernels_;
  std::vector<bool> has_images_;  // by instruction
  std::vector<Value> values_;     // by storage
  bool has_reordered_images_ = false;
};

}  // namespace pando
