#include "pando/compile/image_values.hpp"

#include <algorithm>

#include "pando/compile/layout_choice.hpp"

namespace pando {

ImageValues::ImageValues(const StepFunction& function, ImageKernels& kernels)
    : function_(function), kernels_(kernels) {
  const std::vector<StepInstruction>& all = function.instructions;
  has_images_.resize(all.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    has_images_[i] = has_images(all[i]);
    has_reordered_images_ |= has_images_[i] && kernels_.reordered_bytes(all[i].target) > 0;
  }
  if (!has_reordered_images_) return;
  for (const Storage& storage : function.storages) {
    Value& value = values_.emplace_back();
    value.is_shared = storage.kind == Storage::Kind::Local && storage.row < 0 &&
                      storage.callee < 0 && !storage.starts_undefined && !storage.is_shared;
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    for (std::size_t k = 0; k < all[i].operands.size(); ++k) {
      if (all[i].operands[k].storage >= 0) look_at(i, k);
    }
  }
}

/// A kernel that changes what it reads keeps its images as they are.
bool ImageValues::has_images(const StepInstruction& in) const {
  if (in.kind != Instruction::Kind::Kernel || !kernels_.has_images(in.target)) return false;
  const auto inputs = static_cast<std::ptrdiff_t>(kernels_.num_inputs(in.target));
  return std::all_of(in.operands.begin(), in.operands.begin() + inputs,
                     [](const StepOperand& input) { return input.storage < 0 || input.read_only; });
}

bool ImageValues::is_image(std::size_t instruction, std::size_t operand) const {
  const StepInstruction& in = function_.instructions[instruction];
  return has_images_[instruction] && in.operands[operand].storage >= 0 &&
         kernels_.is_image(in.target, operand);
}

void ImageValues::look_at(std::size_t instruction, std::size_t k) {
  const StepInstruction& in = function_.instructions[instruction];
  const StepOperand& operand = in.operands[k];
  Value& value = values_[static_cast<std::size_t>(operand.storage)];
  // Written by the first instruction that uses it, and by no other one.
  if (value.is_used == !operand.read_only) value.is_shared = false;
  if (value.is_used && value.device != in.device) value.is_shared = false;
  value.is_used = true;
  value.device = in.device;
  if (!is_image(instruction, k)) {
    value.is_used_first = true;
    return;
  }
  OperandDesc image = kernels_.operand(in.target, k);
  const bool is_whole = operand.offset == 0 &&
                        function_.storage_of(operand).bytes == image_bytes(image) &&
                        (!value.is_image || is_same_image(value.image, image));
  if (!is_whole) value.is_shared = false;
  value.is_image = true;
  value.image = std::move(image);
}

std::vector<bool> ImageValues::choose_layouts() {
  LayoutChoice choice;
  std::vector<std::size_t> value_of(values_.size());
  for (std::size_t i = 0; i < values_.size(); ++i) {
    const Value& value = values_[i];
    if (!value.is_shared || !value.is_image) continue;
    value_of[i] = choice.add_value(image_bytes(value.image), value.is_used_first);
  }
  std::vector<std::size_t> instruction_of;  // by user
  for (std::size_t i = 0; i < has_images_.size(); ++i) {
    if (!has_images_[i]) continue;
    const StepInstruction& in = function_.instructions[i];
    const std::size_t user = choice.add_user(kernels_.reordered_bytes(in.target));
    instruction_of.push_back(i);
    std::vector<std::size_t> used;
    for (std::size_t k = 0; k < in.operands.size(); ++k) {
      if (!is_image(i, k)) continue;
      const auto storage = static_cast<std::size_t>(in.operands[k].storage);
      used.push_back(values_[storage].is_shared
                         ? value_of[storage]
                         : choice.add_value(image_bytes(kernels_.operand(in.target, k)), true));
    }
    std::sort(used.begin(), used.end());
    used.erase(std::unique(used.begin(), used.end()), used.end());
    for (const std::size_t value : used) choice.add_use(user, value);
  }
  const std::vector<bool> is_other = choice.run();
  std::vector<bool> result(has_images_.size());
  for (std::size_t user = 0; user < is_other.size(); ++user) {
    result[instruction_of[user]] = is_other[user];
  }
  return result;
}

}  // namespace pando
