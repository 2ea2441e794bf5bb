// Exchanges between the replicas of a group. Members are ordered by replica; a group is given by
// the attributes stride and group_size.
#include "pando/ops/joins.hpp"
#include "pando/ops/rules.hpp"

namespace pando {
namespace {

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

std::int64_t group_size(const Op& op) { return op.attributes.integer("group_size"); }

/// Replicas that reduce add up, compare or combine elements; else elements only move.
void needs_exchangeable(const Op& op) {
  if (group_size(op) == 1 || reduction_of(op) == Reduction::Local) return;
  const DType dtype = op.input(0)->dtype();
  const bool known =
      is_half_or_single_precision(dtype) || dtype == DType::Int32 || dtype == DType::UInt32;
  if (!known) wrong_input(op, "wanted float32, float16, bfloat16, int32 or uint32");
}

/// Input 0 of a collective, its group checked.
const TensorInfo& exchanged(const Op& op) {
  const TensorInfo& info = input_info(op, 0);
  const std::int64_t stride = op.attributes.integer("stride");
  if (stride < 1 || group_size(op) < 1) {
    throw ValueError(str_cat(describe(op),
                             ": wanted a stride and a group size of at least 1; "
                             "given ",
                             stride, " and ", group_size(op)));
  }
  return info;
}

std::vector<TensorInfo> infer_all_reduce(const Op& op) {
  if (reduction_of(op) == Reduction::Local) {
    throw ValueError(str_cat(describe(op), ": 'local' is no reduction"));
  }
  return {exchanged(op)};
}

std::vector<TensorInfo> infer_tensor_parallel(const Op& op) {
  if (reduction_of(op) != Reduction::Add && reduction_of(op) != Reduction::Mean) {
    throw ValueError(str_cat(describe(op), ": wanted a reduction of add or mean; given '",
                             op.attributes.text("op"), "'"));
  }
  return {exchanged(op)};
}

std::vector<TensorInfo> infer_reduce_scatter(const Op& op) {
  reduction_of(op);
  const TensorInfo& info = exchanged(op);
  TensorInfo shard{info.dtype, {ceil_div(info.num_elements(), group_size(op))}, {}};
  if (op.attributes.flag("sharded")) shard.meta_shape = info.shape;
  return {shard};
}

/// How many elements a gather needs of each member.
std::int64_t part_elements(const Op& op) {
  return ceil_div(num_elements(op.attributes.ints("shape")), group_size(op));
}

std::vector<TensorInfo> infer_all_gather(const Op& op) {
  const TensorInfo& info = exchanged(op);
  const TensorInfo whole{info.dtype, op.attributes.ints("shape"), {}};
  if (part_elements(op) > info.num_elements()) {
    wrong_input(op, str_cat("the ", group_size(op), " parts of shape ", shape_text(whole.shape),
                            " have ", part_elements(op),
                            " elements each: wanted a group of as many replicas as hold parts"));
  }
  return {whole};
}

Attributes group_attributes(const Op& op) {
  return {{"stride", op.attributes.integer("stride")}, {"group_size", group_size(op)}};
}

void gather_gradient(GradientBuilder& builder, const Op& op) {
  Tensor* gradient = builder.output_gradient(0);
  if (gradient == nullptr) return;
  // Every replica keeps its own part: nothing is summed over the replicas.
  Attributes attributes = group_attributes(op);
  attributes.set("op", std::string(reduction_word(Reduction::Local)));
  attributes.set("sharded", false);
  const std::int64_t held = op.input(0)->info.num_elements();
  if (held > part_elements(op)) {
    gradient = builder.reshape(gradient, {gradient->info.num_elements()});
    gradient = builder.make(
        "PadInto", {gradient},
        {{"shape", Ints{held * group_size(op)}}, {"starts", Ints{0}}, {"steps", Ints{1}}});
  }
  Tensor* part = builder.make("ReplicatedReduceScatter", {gradient}, std::move(attributes));
  builder.set_input_gradient(0, builder.reshape(part, op.input(0)->shape()));
}

void scatter_gradient(GradientBuilder& builder, const Op& op) {
  Tensor* gradient = builder.output_gradient(0);
  if (gradient == nullptr) return;
  if (reduction_of(op) != Reduction::Local) {
    throw Error(str_cat(describe(op),
                        ": a reduce-scatter has no gradient, but one is needed "
                        "through it"));
  }
  Attributes attributes = group_attributes(op);
  attributes.set("shape", op.input(0)->shape());
  builder.set_input_gradient(0, builder.make("ReplicatedAllGather", {gradient}, attributes));
}

void tensor_parallel_gradient(GradientBuilder& builder, const Op& op) {
  Tensor* gradient = builder.output_gradient(0);
  if (gradient == nullptr) return;
  Attributes attributes = op.attributes;
  attributes.set("reduce", op.attributes.flag("reduce_gradient"));
  attributes.set("reduce_gradient", op.attributes.flag("reduce"));
  builder.set_input_gradient(
      0, builder.make("TensorParallelAllReduce", {gradient}, std::move(attributes)));
}

/// `t` reshaped to the info of the output of `op`.
Tensor* as_output(OpBuilder& builder, const Op& op, Tensor* t) {
  Tensor* result = builder.make("Reshape", {t}, {{"shape", op.output(0)->shape()}});
  result->info.meta_shape = op.output(0)->info.meta_shape;
  return result;
}

// A group of one replica exchanges nothing: the collective is a view, or a square.

Tensor* reduced_alone(OpBuilder& builder, const Op& op) {
  Tensor* t = op.input(0);
  return reduction_of(op) == Reduction::SquareAdd ? builder.make("Mul", {t, t}) : t;
}

std::vector<Tensor*> expand_all_reduce(OpBuilder& builder, const Op& op) {
  if (group_size(op) > 1) return {};
  return {fresh(builder, op, reduced_alone(builder, op))};
}

std::vector<Tensor*> expand_tensor_parallel(OpBuilder& builder, const Op& op) {
  Tensor* t = op.input(0);
  if (!op.attributes.flag("reduce")) return {fresh(builder, op, t)};
  Attributes attributes = group_attributes(op);
  attributes.set("op", op.attributes.text("op"));
  return {builder.make("ReplicatedAllReduce", {t}, std::move(attributes))};
}

std::vector<Tensor*> expand_all_reduce_in_place(OpBuilder& builder, const Op& op) {
  if (group_size(op) > 1) return {};
  Tensor* t = op.input(0);
  if (reduction_of(op) == Reduction::SquareAdd)
    return {builder.make("CopyVarUpdate", {t, builder.make("Mul", {t, t})})};
  return {builder.make("ReshapeInplace", {t}, {{"shape", t->shape()}})};
}

std::vector<Tensor*> expand_reduce_scatter(OpBuilder& builder, const Op& op) {
  if (group_size(op) > 1) return {};
  return {as_output(builder, op, reduced_alone(builder, op))};
}

std::vector<Tensor*> expand_all_gather(OpBuilder& builder, const Op& op) {
  if (group_size(op) > 1) return {};
  Tensor* flat = builder.reshape(op.input(0), {op.input(0)->info.num_elements()});
  return {as_output(builder, op, slice_axis(builder, flat, 0, 0, part_elements(op)))};
}

}  // namespace

void register_collective_ops(Registry& registry) {
  const std::vector<AttributeSpec> group = {integer_attribute("stride"),
                                            integer_attribute("group_size")};
  const auto with_group = [&](std::vector<AttributeSpec> own) {
    own.insert(own.end(), group.begin(), group.end());
    return own;
  };
  const OpDef all_reduce{.name = "ReplicatedAllReduce",
                         .doc =
                             "The reduction (attribute op) of input 0 over the group, on every "
                             "member. In a group of one replica: input 0, or its square.",
                         .attributes = with_group({text_attribute("op")}),
                         .infer = infer_all_reduce,
                         .check_execution = needs_exchangeable,
                         .expand = expand_all_reduce,
                         .is_collective = true};
  registry.add(all_reduce);
  OpDef reduce_in_place = in_place(all_reduce, "ReplicatedAllReduceInplace",
                                   "Overwrites input 0 with its reduction (attribute op) over "
                                   "the group.");
  reduce_in_place.expand = expand_all_reduce_in_place;
  registry.add(std::move(reduce_in_place));
  registry.add(with_gradient(
      {.name = "TensorParallelAllReduce",
       .doc = "The reduction (attribute op: add or mean) of input 0 over the group where attribute "
              "reduce says so, else input 0; its gradient likewise by reduce_gradient.",
       .attributes = with_group(
           {text_attribute("op"), flag_attribute("reduce"), flag_attribute("reduce_gradient")}),
       .infer = infer_tensor_parallel,
       .expand = expand_tensor_parallel},
      tensor_parallel_gradient));
  registry.add(with_gradient(
      {.name = "ReplicatedReduceScatter",
       .doc = "Part i of the flattened reduction of input 0 over the group, padded with zeros to "
              "equal parts, on member i. With op `local` every member cuts its own input. "
              "Attribute sharded: the result keeps the shape of input 0 as its meta shape.",
       .attributes = with_group({text_attribute("op"), flag_attribute("sharded")}),
       .infer = infer_reduce_scatter,
       .check_execution = needs_exchangeable,
       .expand = expand_reduce_scatter,
       .is_collective = true},
      scatter_gradient));
  registry.add(with_gradient({.name = "ReplicatedAllGather",
                              .doc = "The elements of input 0 of all members of the group in "
                                     "order, cut to the size of attribute shape.",
                              .attributes = with_group({ints_attribute("shape")}),
                              .infer = infer_all_gather,
                              .expand = expand_all_gather,
                              .is_collective = true},
                             gather_gradient));
}

}  // namespace pando
