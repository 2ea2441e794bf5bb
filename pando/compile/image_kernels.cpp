#include "pando/compile/image_kernels.hpp"

#include <algorithm>

namespace pando {
namespace {

template <class List>
List rotated(List list) {
  std::rotate(list.begin() + 1, list.begin() + 2, list.end());
  return list;
}

/// Where dimension `axis` of (N, C, spatial...) is in (N, spatial..., C).
std::int64_t moved_axis(std::int64_t axis, std::size_t rank) {
  if (axis == 0) return 0;
  return axis == 1 ? static_cast<std::int64_t>(rank) - 1 : axis - 1;
}

void set_channels_last(Attributes& attributes, std::size_t rank) {
  if (attributes.has("axes")) {
    Ints axes = attributes.ints("axes");
    for (std::int64_t& axis : axes) axis = moved_axis(axis, rank);
    std::sort(axes.begin(), axes.end());
    attributes.set("axes", axes);
    return;
  }
  attributes.set("channel_last", true);
  if (attributes.has("input_shape")) {
    attributes.set("input_shape", rotated(attributes.ints("input_shape")));
  }
}

KernelSpec channels_last_spec(const KernelSpec& spec, const std::vector<std::int32_t>& images) {
  KernelSpec last = spec;
  const auto operand = [&](std::size_t i) -> OperandDesc& {
    return i < last.inputs.size() ? last.inputs[i] : last.outputs[i - last.inputs.size()];
  };
  if (spec.kind == "Fused") {
    // All operands have the shape of the images.
    for (OperandDesc& input : last.inputs) input = channels_last_view(input);
    for (OperandDesc& output : last.outputs) output = channels_last_view(output);
  } else {
    set_channels_last(last.attributes,
                      operand(static_cast<std::size_t>(images.front())).shape.size());
  }
  for (const std::int32_t image : images) {
    OperandDesc& desc = operand(static_cast<std::size_t>(image));
    const Shape shape = spec.kind == "Fused" ? desc.shape : rotated(desc.shape);
    desc = OperandDesc::contiguous(desc.dtype, shape);
  }
  return last;
}

}  // namespace

OperandDesc channels_last_view(const OperandDesc& image) {
  return {image.dtype, rotated(image.shape), rotated(image.strides)};
}

bool is_same_image(const OperandDesc& a, const OperandDesc& b) {
  return a.dtype == b.dtype && a.shape[0] == b.shape[0] && a.shape[1] == b.shape[1] &&
         image_bytes(a) == image_bytes(b);
}

std::int64_t image_bytes(const OperandDesc& image) {
  return num_elements(image.shape) * static_cast<std::int64_t>(dtype_bytes(image.dtype));
}

bool ImageKernels::is_image(std::int32_t kernel, std::size_t operand) {
  const About& known = about(kernel);
  return operand < known.is_image.size() && known.is_image[operand];
}

OperandDesc ImageKernels::operand(std::int32_t kernel, std::size_t operand) const {
  const KernelSpec& spec = kernels_[kernel];
  return operand < spec.inputs.size() ? spec.inputs[operand]
                                      : spec.outputs[operand - spec.inputs.size()];
}

std::int32_t ImageKernels::with_channels_last(std::int32_t kernel) {
  if (about(kernel).last < 0) {
    const KernelImages images = target_.images_of(kernels_[kernel]);
    const std::int32_t last = kernels_.of(channels_last_spec(kernels_[kernel], images.operands));
    about(kernel).last = last;
  }
  return about(kernel).last;
}

std::int32_t ImageKernels::copy(const OperandDesc& image, bool to_last) {
  const OperandDesc first = channels_last_view(image);
  const OperandDesc last = OperandDesc::contiguous(image.dtype, first.shape);
  KernelSpec spec;
  spec.kind = "Copy";
  spec.inputs = {to_last ? first : last};
  spec.outputs = {to_last ? last : first};
  return kernels_.of(spec);
}

ImageKernels::About& ImageKernels::about(std::int32_t kernel) {
  const auto index = static_cast<std::size_t>(kernel);
  if (about_.size() <= index) about_.resize(index + 1);
  if (about_[index]) return *about_[index];
  About& about = about_[index].emplace();
  const KernelSpec& spec = kernels_[kernel];
  const KernelImages images = target_.images_of(spec);
  about.has_images = !images.operands.empty();
  about.is_image.resize(spec.inputs.size() + spec.outputs.size());
  for (const std::int32_t image : images.operands) {
    const auto at = static_cast<std::size_t>(image);
    about.is_image[at] = !channels_last_view(operand(kernel, at)).is_contiguous();
  }
  for (const std::int32_t image : images.reordered) {
    const auto at = static_cast<std::size_t>(image);
    if (about.is_image[at]) about.reordered_bytes += image_bytes(operand(kernel, at));
  }
  return about;
}

}  // namespace pando
