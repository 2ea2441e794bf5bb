// Slices whose positions are tensors, known when the program runs.
#include <algorithm>

#include "pando/ops/gather.hpp"
#include "pando/ops/nn_rules.hpp"

namespace pando {
namespace {

using enum AttributeType;

const std::vector<AttributeSpec> kSliceAttributes = {
    {"axes", IntList}, {"sizes", IntList}, {"no_overlap", Flag, false}};

/// Shape of the slice that axes and sizes cut from `shape`; checks both and the index's size.
Shape slice_shape(const Op& op, Shape shape, const Tensor& index) {
  const Ints& axes = op.attributes.ints("axes");
  const Ints& sizes = op.attributes.ints("sizes");
  const auto rank = static_cast<std::int64_t>(shape.size());
  check_inputs(op, axes.size() == sizes.size(), "wanted as many sizes as axes");
  for (std::size_t i = 0; i < axes.size(); ++i) {
    check_inputs(op, axes[i] >= 0 && axes[i] < rank,
                 str_cat("axis ", axes[i], " is out of range for a tensor of rank ", rank));
    check_inputs(op, std::count(axes.begin(), axes.end(), axes[i]) == 1,
                 str_cat("wanted each axis once, got ", attribute_text(axes)));
    std::int64_t& dim = shape[static_cast<std::size_t>(axes[i])];
    check_inputs(op, sizes[i] >= 0 && sizes[i] <= dim,
                 str_cat("size ", sizes[i], " does not fit dimension ", axes[i]));
    dim = sizes[i];
  }
  check_inputs(op, index.info.num_elements() == static_cast<std::int64_t>(axes.size()),
               str_cat("wanted an index with ", axes.size(), " elements, one per axis"));
  return shape;
}

void needs_position(const Op& op) {
  const DType dtype = op.input(1)->dtype();
  check_inputs(op, dtype == DType::Int32 || dtype == DType::UInt32,
               "wanted an int32 or uint32 index");
}

/// Building does not compare the update with the slice.
void needs_update_of_slice(const Op& op) {
  needs_position(op);
  const Tensor &t = *op.input(0), &update = *op.input(2);
  const Shape wanted = slice_shape(op, t.shape(), *op.input(1));
  check_inputs(op, update.shape() == wanted && update.dtype() == t.dtype(),
               str_cat("wanted t_update of shape ", shape_text(wanted), " and t's dtype"));
}

Attributes with_shape(const Op& op, const Shape& shape) {
  Attributes attributes = pick_attributes(op, {"axes", "sizes", "no_overlap"});
  attributes.set("input_shape", Ints(shape));
  return attributes;
}

OpDef dynamic_slice() {
  OpDef def;
  def.name = "DynamicSlice";
  def.doc =
      "Inputs: 0 t, 1 index (int32 or uint32, one element per axis). Attributes: axes, sizes, "
      "no_overlap (no effect on values). The part of t that starts at index[i] and has sizes[i] "
      "elements along axes[i]; a copy. A start beyond dim - size is moved back to it.";
  def.min_inputs = def.max_inputs = 2;
  def.attributes = kSliceAttributes;
  def.infer = [](const Op& op) {
    const Tensor& t = needed_input(op, 0, "t");
    const Shape shape = slice_shape(op, t.shape(), needed_input(op, 1, "index"));
    return std::vector<TensorInfo>{plain_info(t.dtype(), shape)};
  };
  def.check_execution = needs_position;
  def.differentiable_inputs = {0};
  def.gradient = [](GradientBuilder& builder, const Op& op) {
    Tensor* g = builder.output_gradient(0);
    if (g == nullptr || !builder.wants(0)) return;
    builder.set_input_gradient(
        0, builder.make("DynamicSlicePadGrad", {g, builder.forward(op.input(1))},
                        with_shape(op, op.input(0)->shape())));
  };
  return def;
}

OpDef dynamic_slice_pad_grad() {
  OpDef def;
  def.name = "DynamicSlicePadGrad";
  def.doc =
      "Inputs: 0 g, 1 index. Attributes: axes, sizes, no_overlap, input_shape. g placed into zeros "
      "of input_shape at the slice.";
  def.min_inputs = def.max_inputs = 2;
  def.attributes = kSliceAttributes;
  def.attributes.push_back({"input_shape", IntList});
  def.infer = [](const Op& op) {
    const Tensor& g = needed_input(op, 0, "g");
    const Shape& shape = op.attributes.ints("input_shape");
    const Shape wanted = slice_shape(op, shape, needed_input(op, 1, "index"));
    check_inputs(op, g.shape() == wanted, str_cat("wanted g of shape ", shape_text(wanted)));
    return std::vector<TensorInfo>{plain_info(g.dtype(), shape)};
  };
  def.check_execution = needs_position;
  def.expand = [](OpBuilder& builder, const Op& op) -> std::vector<Tensor*> {
    Tensor* g = op.input(0);
    Tensor* target = zeros(builder, g->dtype(), op.attributes.ints("input_shape"));
    return {builder.make("DynamicUpdate", {target, op.input(1), g},
                         pick_attributes(op, {"axes", "sizes", "no_overlap"}))};
  };
  return def;
}

void dynamic_update_gradient(GradientBuilder& builder, const Op& op) {
  Tensor* g = builder.output_gradient(0);
  if (g == nullptr) return;
  Tensor* index = builder.forward(op.input(1));
  const Attributes attributes = pick_attributes(op, {"axes", "sizes", "no_overlap"});
  if (builder.wants(0)) {
    builder.set_input_gradient(0,
                               builder.make("DynamicUpdateToUpdateGrad", {g, index}, attributes));
  }
  if (builder.wants(2)) {
    builder.set_input_gradient(2, builder.make("DynamicUpdateUpdaterGrad", {g, index}, attributes));
  }
}

OpDef dynamic_update(bool in_place) {
  OpDef def;
  def.name = in_place ? "DynamicUpdateInplace" : "DynamicUpdate";
  def.doc =
      str_cat(in_place ? "Writes into input 0 in place. " : "",
              "Inputs: 0 t, 1 index (int32 or uint32, one element per axis), 2 t_update (shape "
              "of the slice, dtype of t). Attributes: axes, sizes, no_overlap. t with t_update "
              "written at the slice that DynamicSlice would cut.");
  def.min_inputs = def.max_inputs = 3;
  def.attributes = kSliceAttributes;
  def.infer = [](const Op& op) {
    const Tensor& t = needed_input(op, 0, "t");
    needed_input(op, 2, "t_update");
    slice_shape(op, t.shape(), needed_input(op, 1, "index"));
    return std::vector<TensorInfo>{t.info};
  };
  def.check_execution = needs_update_of_slice;
  if (in_place) {
    def.modified_inputs = modifies_first;
    def.output_alias = aliases_first;
  } else {
    def.differentiable_inputs = {0, 2};
    def.gradient = dynamic_update_gradient;
  }
  return def;
}

OpDef dynamic_update_grad(bool to_update) {
  OpDef def;
  def.name = to_update ? "DynamicUpdateToUpdateGrad" : "DynamicUpdateUpdaterGrad";
  def.doc = str_cat("Inputs: 0 g, 1 index. Attributes: axes, sizes, no_overlap. ",
                    to_update ? "g with the slice set to 0." : "The slice of g.");
  def.min_inputs = def.max_inputs = 2;
  def.attributes = kSliceAttributes;
  def.infer = [to_update](const Op& op) {
    const Tensor& g = needed_input(op, 0, "g");
    const Shape slice = slice_shape(op, g.shape(), needed_input(op, 1, "index"));
    return std::vector<TensorInfo>{to_update ? g.info : plain_info(g.dtype(), slice)};
  };
  def.check_execution = needs_position;
  def.expand = [to_update](OpBuilder& builder, const Op& op) -> std::vector<Tensor*> {
    Tensor* g = op.input(0);
    Tensor* index = op.input(1);
    if (!to_update) return {builder.make("DynamicSlice", {g, index}, op.attributes)};
    Tensor* none = zeros(builder, g->dtype(), slice_shape(op, g->shape(), *index));
    return {builder.make("DynamicUpdate", {g, index, none}, op.attributes)};
  };
  return def;
}

}  // namespace

void register_dynamic_slice_ops(Registry& registry) {
  registry.add(dynamic_slice());
  registry.add(dynamic_slice_pad_grad());
  registry.add(dynamic_update(false));
  registry.add(dynamic_update(true));
  registry.add(dynamic_update_grad(true));
  registry.add(dynamic_update_grad(false));
}

}  // namespace pando
