// Windows of a tensor as columns (im2col), and back.
#include "pando/ops/nn_rules.hpp"
#include "pando/ops/ops.hpp"
#include "pando/ops/rules.hpp"
#include "pando/ops/window.hpp"

namespace pando {
namespace {

using enum AttributeType;

const std::vector<AttributeSpec> kWindowAttributes = {{"kernel_size", IntList},
                                                      {"strides", IntList, false},
                                                      {"pads", IntList, false},
                                                      {"dilations", IntList, false}};

constexpr const char* kWindowDoc =
    "Attributes: kernel_size, strides, pads (begins, then ends), dilations (default 1, 0, 1). "
    "Kernels see all of them. ";

/// The windows of data with spatial dimensions `space`, of which there is at least one.
Window windows_of(const Op& op, const Shape& space, const char* what) {
  const Ints& kernel = op.attributes.ints("kernel_size");
  check_inputs(op, kernel.size() == space.size(),
               str_cat("wanted a kernel_size of ", space.size(), " dimensions"));
  Window window = resolve_window(op, space, kernel, what);
  for (std::int64_t size : window.output) {
    check_inputs(op, size >= 1,
                 str_cat("wanted windows that fit ", shape_text(space), " with its padding"));
  }
  for (std::int64_t pad : op.attributes.has("pads") ? op.attributes.ints("pads") : Ints{}) {
    check_inputs(op, pad >= 0, "wanted pads of at least 0");
  }
  return window;
}

/// The op with its window explicit, or nothing if it is.
std::vector<Tensor*> expand_window(OpBuilder& builder, const Op& op, const Shape& space,
                                   const char* what) {
  if (window_is_explicit(op)) return {};
  Attributes attributes = pick_attributes(op, {"kernel_size", "output_size"});
  set_window(attributes, windows_of(op, space, what));
  return {builder.make(op.kind_name(), {op.input(0)}, attributes)};
}

OpDef unfold() {
  OpDef def;
  def.name = "Unfold";
  def.doc = str_cat("im2col. Inputs: 0 t (N, C, spatial...). ", kWindowDoc,
                    "Output (N, C * elements of the kernel, windows): column w holds the elements "
                    "under window w, channel by channel, 0 outside of t.");
  def.attributes = kWindowAttributes;
  def.infer = [](const Op& op) {
    const Tensor& t = needed_input(op, 0, "t");
    check_spatial_rank(op, t);
    const Window window = windows_of(op, spatial_dimensions(t.shape()), "unfold");
    const std::int64_t cells = num_elements(op.attributes.ints("kernel_size"));
    return std::vector<TensorInfo>{
        plain_info(t.dtype(), {t.shape()[0], t.shape()[1] * cells, num_elements(window.output)})};
  };
  def.check_execution = needs_arithmetic;
  def.expand = [](OpBuilder& builder, const Op& op) {
    return expand_window(builder, op, spatial_dimensions(op.input(0)->shape()), "unfold");
  };
  def.differentiable_inputs = {0};
  def.gradient = [](GradientBuilder& builder, const Op& op) {
    Tensor* g = builder.output_gradient(0);
    if (g == nullptr) return;
    Attributes attributes = pick_attributes(op, {"kernel_size", "strides", "pads", "dilations"});
    attributes.set("output_size", Ints(spatial_dimensions(op.input(0)->shape())));
    builder.set_input_gradient(0, builder.make("Fold", {g}, attributes));
  };
  return def;
}

std::vector<TensorInfo> infer_fold(const Op& op) {
  const Tensor& t = needed_input(op, 0, "t");
  const Shape& space = op.attributes.ints("output_size");
  check_inputs(op, !space.empty() && space.size() <= 3,
               "wanted an output_size of 1 to 3 dimensions");
  const Window window = windows_of(op, space, "fold");
  const std::int64_t cells = num_elements(op.attributes.ints("kernel_size"));
  const std::int64_t windows = num_elements(window.output);
  check_inputs(op, t.shape().size() == 3 && t.shape()[1] % cells == 0 && t.shape()[2] == windows,
               str_cat("wanted t of shape (N, C * ", cells, ", ", windows, ")"));
  return {plain_info(t.dtype(), join_shapes({t.shape()[0], t.shape()[1] / cells}, space))};
}

OpDef fold() {
  OpDef def;
  def.name = "Fold";
  def.doc = str_cat(
      "col2im. Inputs: 0 t (N, C * elements of the kernel, windows), as Unfold makes "
      "it. Attributes: output_size (the spatial dimensions). ",
      kWindowDoc,
      "Output (N, C, output_size...): for every element the sum over the windows "
      "that cover it.");
  def.attributes = kWindowAttributes;
  def.attributes.push_back({"output_size", IntList});
  def.infer = infer_fold;
  def.check_execution = needs_numbers;
  def.expand = [](OpBuilder& builder, const Op& op) {
    return expand_window(builder, op, op.attributes.ints("output_size"), "fold");
  };
  def.differentiable_inputs = {0};
  def.gradient = [](GradientBuilder& builder, const Op& op) {
    Tensor* g = builder.output_gradient(0);
    if (g == nullptr) return;
    builder.set_input_gradient(
        0, builder.make("Unfold", {g},
                        pick_attributes(op, {"kernel_size", "strides", "pads", "dilations"})));
  };
  return def;
}

}  // namespace

void register_fold_ops(Registry& registry) {
  registry.add(unfold());
  registry.add(fold());
}

}  // namespace pando
