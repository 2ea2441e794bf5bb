// Ops that rearrange elements: views where strides allow it, and joins.
#include <algorithm>

#include "pando/ops/joins.hpp"
#include "pando/ops/rules.hpp"

namespace pando {
namespace {

std::size_t input_rank(const Op& op) { return input_info(op, 0).shape.size(); }

void require_length(const Op& op, const char* attribute, std::size_t length) {
  const Ints& values = op.attributes.ints(attribute);
  if (values.size() == length) return;
  wrong_input(op, str_cat("wanted one entry of '", attribute, "' for each of ", length,
                          " dimensions, got ", attribute_text(values)));
}

OpDef view_def(std::string name, std::string doc, std::vector<AttributeSpec> attributes,
               InferRule infer,
               std::function<std::optional<View>(const Op&, int, const View&)> view) {
  return {.name = std::move(name),
          .doc = std::move(doc),
          .attributes = std::move(attributes),
          .infer = std::move(infer),
          .view = std::move(view)};
}

// Reshape

std::vector<TensorInfo> infer_reshape(const Op& op) {
  const Shape& shape = op.attributes.ints("shape");
  const bool negative = std::any_of(shape.begin(), shape.end(), [](auto dim) { return dim < 0; });
  if (negative || num_elements(shape) != input_info(op, 0).num_elements()) {
    wrong_input(op, str_cat("wanted a shape with the ", op.input(0)->info.num_elements(),
                            " elements of the input, got ", shape_text(shape)));
  }
  return infer_shape_attribute(op);
}

std::optional<View> reshaped(const Op& op, int, const View& input) {
  return reshape_view(input, op.attributes.ints("shape"));
}

void add_reshape(Registry& registry) {
  const std::vector<AttributeSpec> attributes = {ints_attribute("shape")};
  const OpDef reshape = view_def("Reshape",
                                 "Input 0 in C order under attribute shape (no -1, same number of "
                                 "elements).",
                                 attributes, infer_reshape, reshaped);
  registry.add(with_gradient(reshape, [](GradientBuilder& builder, const Op& op) {
    Tensor* gradient = builder.output_gradient(0);
    if (gradient == nullptr) return;
    builder.set_input_gradient(
        0, builder.make("ReshapeGrad", {gradient}, {{"shape", op.input(0)->shape()}}));
  }));
  registry.add(
      view_in_place(reshape, "ReshapeInplace", "An alias of input 0 under attribute shape."));
  registry.add(view_def("ReshapeGrad", "Input g under attribute shape.", attributes, infer_reshape,
                        reshaped));
}

// Transpose

std::vector<TensorInfo> infer_transpose(const Op& op) {
  const Ints& permutation = op.attributes.ints("permutation");
  Ints sorted = permutation;
  std::sort(sorted.begin(), sorted.end());
  bool valid = sorted.size() == input_rank(op);
  for (std::size_t i = 0; valid && i < sorted.size(); ++i) {
    valid = sorted[i] == static_cast<std::int64_t>(i);
  }
  if (!valid) {
    wrong_input(op, str_cat("wanted a permutation of the ", input_rank(op), " dimensions, got ",
                            attribute_text(permutation)));
  }
  const TensorInfo& input = op.input(0)->info;
  Shape shape = input.shape;
  for (std::size_t i = 0; i < permutation.size(); ++i) {
    shape[i] = input.shape[static_cast<std::size_t>(permutation[i])];
  }
  return {with_shape(input, std::move(shape))};
}

std::optional<View> transposed(const Op& op, int, const View& input) {
  return permute_view(input, op.attributes.ints("permutation"));
}

void transpose_gradient(GradientBuilder& builder, const Op& op) {
  Tensor* gradient = builder.output_gradient(0);
  if (gradient == nullptr) return;
  const Ints& permutation = op.attributes.ints("permutation");
  Ints inverse(permutation.size());
  for (std::size_t i = 0; i < permutation.size(); ++i) {
    inverse[static_cast<std::size_t>(permutation[i])] = static_cast<std::int64_t>(i);
  }
  builder.set_input_gradient(0,
                             builder.make("TransposeGrad", {gradient}, {{"permutation", inverse}}));
}

void add_transpose(Registry& registry) {
  const std::vector<AttributeSpec> attributes = {ints_attribute("permutation")};
  const OpDef transpose =
      view_def("Transpose", "Axis k of the result is axis permutation[k] of input 0.", attributes,
               infer_transpose, transposed);
  registry.add(with_gradient(transpose, transpose_gradient));
  registry.add(view_in_place(transpose, "TransposeInplace",
                             "An alias of input 0 whose axis k is axis permutation[k]."));
  registry.add(view_def("TransposeGrad", "Axis k of the result is axis permutation[k] of input g.",
                        attributes, infer_transpose, transposed));
}

// Slice and Subsample

/// Elements starts + steps * i, 0 <= i < counts, must lie inside `shape`.
void check_window(const Op& op, const Shape& shape, const Ints& starts, const Ints& steps,
                  const Ints& counts) {
  for (std::size_t d = 0; d < shape.size(); ++d) {
    const std::int64_t last = starts[d] + steps[d] * (counts[d] - 1);
    const bool inside = starts[d] >= 0 && starts[d] < shape[d] && last >= 0 && last < shape[d];
    if (steps[d] != 0 && counts[d] >= 0 && (counts[d] == 0 || inside)) continue;
    wrong_input(
        op, str_cat("the window of start ", starts[d], ", step ", steps[d], " and count ",
                    counts[d], " does not lie inside dimension ", d, " of ", shape_text(shape)));
  }
}

std::vector<TensorInfo> infer_slice(const Op& op) {
  for (const char* name : {"starts", "steps", "counts"}) require_length(op, name, input_rank(op));
  const Ints& counts = op.attributes.ints("counts");
  check_window(op, op.input(0)->shape(), op.attributes.ints("starts"), op.attributes.ints("steps"),
               counts);
  return {with_shape(op.input(0)->info, counts)};
}

View window_of(View view, const Ints& starts, const Ints& steps, const Ints& counts) {
  for (std::size_t d = 0; d < starts.size(); ++d) {
    view = slice_view(view, static_cast<std::int64_t>(d), starts[d], steps[d], counts[d]);
  }
  return view;
}

std::optional<View> sliced(const Op& op, int, const View& input) {
  return window_of(input, op.attributes.ints("starts"), op.attributes.ints("steps"),
                   op.attributes.ints("counts"));
}

std::vector<TensorInfo> infer_subsample(const Op& op) {
  require_length(op, "strides", input_rank(op));
  const Ints& strides = op.attributes.ints("strides");
  Shape shape = op.input(0)->shape();
  for (std::size_t d = 0; d < strides.size(); ++d) {
    if (strides[d] < 1) {
      wrong_input(op, str_cat("wanted strides of 1 or more, got ", attribute_text(strides)));
    }
    shape[d] = (shape[d] + strides[d] - 1) / strides[d];
  }
  return {with_shape(op.input(0)->info, std::move(shape))};
}

std::optional<View> subsampled(const Op& op, int, const View& input) {
  const Ints& strides = op.attributes.ints("strides");
  return window_of(input, Ints(strides.size(), 0), strides, op.output(0)->shape());
}

std::vector<TensorInfo> infer_pad_into(const Op& op) {
  const Shape& shape = op.attributes.ints("shape");
  for (const char* name : {"shape", "starts", "steps"}) require_length(op, name, input_rank(op));
  check_window(op, shape, op.attributes.ints("starts"), op.attributes.ints("steps"),
               op.input(0)->shape());
  return infer_shape_attribute(op);
}

Tensor* pad_into(OpBuilder& builder, const Op& op, const Ints& starts, const Ints& steps) {
  Tensor* t = op.input(0);
  const Shape& shape = op.attributes.ints("shape");
  const bool everything = t->shape() == shape && std::all_of(steps.begin(), steps.end(),
                                                             [](auto step) { return step == 1; });
  if (everything) return fresh(builder, op, t);
  return builder.make("PadInto", {t}, {{"shape", shape}, {"starts", starts}, {"steps", steps}});
}

void add_slice(Registry& registry) {
  const OpDef slice = view_def(
      "Slice",
      "Elements starts[d] + steps[d] i, 0 <= i < counts[d], of every dimension d of input 0. All "
      "three attributes have one entry per dimension; steps may be negative.",
      {ints_attribute("starts"), ints_attribute("steps"), ints_attribute("counts")}, infer_slice,
      sliced);
  registry.add(with_gradient(slice, [](GradientBuilder& builder, const Op& op) {
    Tensor* gradient = builder.output_gradient(0);
    if (gradient == nullptr) return;
    builder.set_input_gradient(0, builder.make("SliceGrad", {gradient},
                                               {{"shape", op.input(0)->shape()},
                                                {"starts", op.attributes.ints("starts")},
                                                {"steps", op.attributes.ints("steps")}}));
  }));
  OpDef in_place_slice = view_in_place(slice, "SliceInplace",
                                       "An alias of the window of input 0 that Slice describes.");
  in_place_slice.gradient_is_error = true;
  registry.add(std::move(in_place_slice));
  const std::vector<AttributeSpec> window = {ints_attribute("shape"), ints_attribute("starts"),
                                             ints_attribute("steps")};
  registry.add({.name = "SliceGrad",
                .doc = "Zeros of attribute shape with input g at starts[d] + steps[d] i.",
                .attributes = window,
                .infer = infer_pad_into,
                .expand = [](OpBuilder& builder, const Op& op) {
                  return std::vector{pad_into(builder, op, op.attributes.ints("starts"),
                                              op.attributes.ints("steps"))};
                }});
  registry.add({.name = "PadInto",
                .doc = "Zeros of attribute shape with element i of input 0 at starts[d] + steps[d] "
                       "i[d] in every dimension d. A kernel.",
                .attributes = window,
                .infer = infer_pad_into});
}

void add_subsample(Registry& registry) {
  registry.add(with_gradient(
      view_def("Subsample", "Every strides[d]-th element of each dimension d of input 0, from 0.",
               {ints_attribute("strides")}, infer_subsample, subsampled),
      [](GradientBuilder& builder, const Op& op) {
        Tensor* gradient = builder.output_gradient(0);
        if (gradient == nullptr) return;
        builder.set_input_gradient(0, builder.make("SubsampleGrad", {gradient},
                                                   {{"shape", op.input(0)->shape()},
                                                    {"strides", op.attributes.ints("strides")}}));
      }));
  registry.add({.name = "SubsampleGrad",
                .doc = "Zeros of attribute shape with input g at strides[d] i.",
                .attributes = {ints_attribute("shape"), ints_attribute("strides")},
                .infer =
                    [](const Op& op) {
                      for (const char* name : {"shape", "strides"}) {
                        require_length(op, name, input_rank(op));
                      }
                      check_window(op, op.attributes.ints("shape"), Ints(input_rank(op), 0),
                                   op.attributes.ints("strides"), op.input(0)->shape());
                      return infer_shape_attribute(op);
                    },
                .expand =
                    [](OpBuilder& builder, const Op& op) {
                      const Ints& strides = op.attributes.ints("strides");
                      return std::vector{pad_into(builder, op, Ints(strides.size(), 0), strides)};
                    }});
}

// BroadcastTo

void add_broadcast(Registry& registry) {
  registry.add(with_gradient(
      view_def(
          "BroadcastTo", "Input 0 repeated by NumPy broadcasting to attribute shape.",
          {ints_attribute("shape")},
          [](const Op& op) {
            const Shape& shape = op.attributes.ints("shape");
            if (broadcast_shapes(input_info(op, 0).shape, shape) != shape) {
              wrong_input(op, str_cat("cannot broadcast to ", shape_text(shape)));
            }
            return infer_shape_attribute(op);
          },
          [](const Op& op, int, const View& input) -> std::optional<View> {
            return broadcast_view(input, op.attributes.ints("shape"));
          }),
      [](GradientBuilder& builder, const Op& op) {
        Tensor* gradient = builder.output_gradient(0);
        if (gradient == nullptr) return;
        builder.set_input_gradient(0, builder.reduce_to(gradient, op.input(0)->shape()));
      }));
}

}  // namespace

void register_shape_ops(Registry& registry) {
  add_reshape(registry);
  add_transpose(registry);
  add_slice(registry);
  add_subsample(registry);
  add_broadcast(registry);
  register_joins(registry);
}

}  // namespace pando
