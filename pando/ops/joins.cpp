#include "pando/ops/joins.hpp"

#include <numeric>

#include "pando/ops/rules.hpp"

namespace pando {

Tensor* slice_axis(OpBuilder& builder, Tensor* t, std::int64_t axis, std::int64_t start,
                   std::int64_t count) {
  const auto d = static_cast<std::size_t>(axis);
  if (start == 0 && count == t->shape()[d]) return t;
  Ints starts(t->shape().size(), 0);
  const Ints steps(t->shape().size(), 1);
  Ints counts = t->shape();
  starts[d] = start;
  counts[d] = count;
  return builder.make("Slice", {t}, {{"starts", starts}, {"steps", steps}, {"counts", counts}});
}

namespace {

std::vector<TensorInfo> infer_concat(const Op& op) {
  const std::int64_t axis = op.attributes.integer("axis");
  require_axis(op, 0, axis);
  const auto d = static_cast<std::size_t>(axis);
  const TensorInfo& first = op.input(0)->info;
  if (op.num_inputs() == 1) return {first};
  Shape shape = first.shape;
  for (int i = 1; i < op.num_inputs(); ++i) {
    const TensorInfo& next = input_info(op, i);
    if (next.dtype != first.dtype) {
      wrong_input(op, "All inputs to a concat operation must have the same type");
    }
    Shape expected = first.shape;
    if (next.shape.size() == expected.size()) expected[d] = next.shape[d];
    if (next.shape != expected) {
      wrong_input(op, str_cat("wanted shapes that differ in axis ", axis, " only"));
    }
    shape[d] += next.shape[d];
  }
  return {{first.dtype, std::move(shape), {}}};
}

void concat_gradient(GradientBuilder& builder, const Op& op) {
  Tensor* gradient = builder.output_gradient(0);
  if (gradient == nullptr) return;
  const std::int64_t axis = op.attributes.integer("axis");
  std::int64_t start = 0;
  for (int i = 0; i < op.num_inputs(); ++i) {
    const std::int64_t size = op.input(i)->shape()[static_cast<std::size_t>(axis)];
    if (builder.wants(i)) {
      builder.set_input_gradient(i,
                                 builder.make("ConcatGrad", {gradient},
                                              {{"axis", axis}, {"start", start}, {"size", size}}));
    }
    start += size;
  }
}

void add_concat(Registry& registry) {
  const OpDef concat{.name = "Concat",
                     .doc = "The inputs one after the other along attribute axis. A kernel.",
                     .max_inputs = -1,
                     .attributes = {integer_attribute("axis")},
                     .infer = infer_concat,
                     .expand =
                         [](OpBuilder& builder, const Op& op) {
                           std::vector<Tensor*> replacements;
                           if (op.num_inputs() == 1) {
                             replacements.push_back(fresh(builder, op, op.input(0)));
                           }
                           return replacements;
                         },
                     .gradient = concat_gradient,
                     .differentiable_inputs = {0}};
  registry.add(concat);
  OpDef in_place_concat = concat;
  in_place_concat.name = "ConcatInplace";
  in_place_concat.doc =
      "The inputs one after the other along attribute axis. The result has a storage of its own; "
      "the transform keep_concat_views makes writes to it reach the inputs, and back.";
  in_place_concat.expand = [](OpBuilder& builder, const Op& op) {
    return std::vector{builder.make("Concat", op.inputs(), op.attributes)};
  };
  registry.add(std::move(in_place_concat));
  registry.add({.name = "ConcatGrad",
                .doc = "Elements [start, start + size) of attribute axis of input g.",
                .attributes = {integer_attribute("axis"), integer_attribute("start"),
                               integer_attribute("size")},
                .infer =
                    [](const Op& op) {
                      const TensorInfo& info = input_info(op, 0);
                      Shape shape = info.shape;
                      shape[static_cast<std::size_t>(op.attributes.integer("axis"))] =
                          op.attributes.integer("size");
                      return std::vector<TensorInfo>{{info.dtype, std::move(shape), {}}};
                    },
                .expand =
                    [](OpBuilder& builder, const Op& op) {
                      Tensor* part =
                          slice_axis(builder, op.input(0), op.attributes.integer("axis"),
                                     op.attributes.integer("start"), op.attributes.integer("size"));
                      return std::vector{fresh(builder, op, part)};
                    }});
}

std::vector<TensorInfo> infer_split(const Op& op) {
  const std::int64_t axis = op.attributes.integer("axis");
  require_axis(op, 0, axis);
  const auto d = static_cast<std::size_t>(axis);
  const Ints& sizes = op.attributes.ints("sizes");
  const std::int64_t total = std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
  bool valid = total == op.input(0)->shape()[d] && !sizes.empty();
  for (std::int64_t size : sizes) valid = valid && size >= 0;
  if (!valid) {
    wrong_input(op, str_cat("wanted sizes that sum to ", op.input(0)->shape()[d], " along axis ",
                            axis, ", got ", attribute_text(sizes)));
  }
  Shape shape = op.input(0)->shape();
  std::vector<TensorInfo> infos;
  for (std::int64_t size : sizes) {
    shape[d] = size;
    infos.push_back({op.input(0)->dtype(), shape, {}});
  }
  return infos;
}

void split_gradient(GradientBuilder& builder, const Op& op) {
  std::vector<Tensor*> gradients;
  bool any = false;
  for (int i = 0; i < op.num_outputs(); ++i) {
    gradients.push_back(builder.output_gradient(i));
    any = any || gradients.back() != nullptr;
  }
  if (!any) return;
  for (int i = 0; i < op.num_outputs(); ++i) {
    Tensor*& gradient = gradients[static_cast<std::size_t>(i)];
    if (gradient == nullptr) gradient = broadcast_constant(builder, 0.0, op.output(i)->info);
  }
  builder.set_input_gradient(
      0, builder.make("SplitGrad", gradients, {{"axis", op.attributes.integer("axis")}}));
}

void add_split(Registry& registry) {
  registry.add({.name = "Split",
                .doc = "Consecutive parts of input 0 along attribute axis, one output per entry of "
                       "attribute sizes.",
                .attributes = {integer_attribute("axis"), ints_attribute("sizes")},
                .infer = infer_split,
                .expand =
                    [](OpBuilder& builder, const Op& op) {
                      std::vector<Tensor*> parts;
                      std::int64_t start = 0;
                      for (std::int64_t size : op.attributes.ints("sizes")) {
                        Tensor* part = slice_axis(builder, op.input(0),
                                                  op.attributes.integer("axis"), start, size);
                        parts.push_back(fresh(builder, op, part));
                        start += size;
                      }
                      return parts;
                    },
                .gradient = split_gradient,
                .differentiable_inputs = {0}});
  registry.add({.name = "SplitGrad",
                .doc = "The gradients of the parts, joined along attribute axis.",
                .max_inputs = -1,
                .attributes = {integer_attribute("axis")},
                .infer = infer_concat,
                .expand = [](OpBuilder& builder, const Op& op) {
                  return std::vector{builder.make("Concat", op.inputs(), op.attributes)};
                }});
}

}  // namespace

void register_joins(Registry& registry) {
  add_concat(registry);
  add_split(registry);
}

}  // namespace pando
