// Written by scripts/write_builders.py from the registry: run ./dev generate.
// clang-format off
#include "pando/ops/builders/collective.hpp"

#include <utility>

namespace pando::ops {

BuiltOp replicated_all_gather(OpBuilder& builder, Tensor* input0,
                              const ReplicatedAllGatherAttributes& attributes,
                              std::string_view name) {
  Attributes given;
  set_attribute(given, "shape", attributes.shape);
  set_attribute(given, "stride", attributes.stride);
  set_attribute(given, "group_size", attributes.group_size);
  return build_op(builder, "ReplicatedAllGather", {input0}, std::move(given), name);
}

BuiltOp replicated_all_reduce(OpBuilder& builder, Tensor* input0,
                              const ReplicatedAllReduceAttributes& attributes,
                              std::string_view name) {
  Attributes given;
  set_attribute(given, "op", attributes.op);
  set_attribute(given, "stride", attributes.stride);
  set_attribute(given, "group_size", attributes.group_size);
  return build_op(builder, "ReplicatedAllReduce", {input0}, std::move(given), name);
}

BuiltOp replicated_all_reduce_inplace(OpBuilder& builder, Tensor* input0,
                                      const ReplicatedAllReduceInplaceAttributes& attributes,
                                      std::string_view name) {
  Attributes given;
  set_attribute(given, "op", attributes.op);
  set_attribute(given, "stride", attributes.stride);
  set_attribute(given, "group_size", attributes.group_size);
  return build_op(builder, "ReplicatedAllReduceInplace", {input0}, std::move(given), name);
}

BuiltOp replicated_reduce_scatter(OpBuilder& builder, Tensor* input0,
                                  const ReplicatedReduceScatterAttributes& attributes,
                                  std::string_view name) {
  Attributes given;
  set_attribute(given, "op", attributes.op);
  set_attribute(given, "sharded", attributes.sharded);
  set_attribute(given, "stride", attributes.stride);
  set_attribute(given, "group_size", attributes.group_size);
  return build_op(builder, "ReplicatedReduceScatter", {input0}, std::move(given), name);
}

BuiltOp tensor_parallel_all_reduce(OpBuilder& builder, Tensor* input0,
                                   const TensorParallelAllReduceAttributes& attributes,
                                   std::string_view name) {
  Attributes given;
  set_attribute(given, "op", attributes.op);
  set_attribute(given, "reduce", attributes.reduce);
  set_attribute(given, "reduce_gradient", attributes.reduce_gradient);
  set_attribute(given, "stride", attributes.stride);
  set_attribute(given, "group_size", attributes.group_size);
  return build_op(builder, "TensorParallelAllReduce", {input0}, std::move(given), name);
}

}  // namespace pando::ops
