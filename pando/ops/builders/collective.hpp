// Written by scripts/write_builders.py from the registry: run ./dev generate.
// clang-format off
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pando/ops/built_op.hpp"

namespace pando::ops {

struct ReplicatedAllGatherAttributes {
  Required<Ints> shape;
  Required<std::int64_t> stride;
  Required<std::int64_t> group_size;
};
/// The elements of input 0 of all members of the group in order, cut to the size of attribute
/// shape.
BuiltOp replicated_all_gather(OpBuilder& builder, Tensor* input0,
                              const ReplicatedAllGatherAttributes& attributes,
                              std::string_view name = {});

struct ReplicatedAllReduceAttributes {
  Required<std::string> op;
  Required<std::int64_t> stride;
  Required<std::int64_t> group_size;
};
/// The reduction (attribute op) of input 0 over the group, on every member. In a group of one
/// replica: input 0, or its square.
BuiltOp replicated_all_reduce(OpBuilder& builder, Tensor* input0,
                              const ReplicatedAllReduceAttributes& attributes,
                              std::string_view name = {});

struct ReplicatedAllReduceInplaceAttributes {
  Required<std::string> op;
  Required<std::int64_t> stride;
  Required<std::int64_t> group_size;
};
/// Overwrites input 0 with its reduction (attribute op) over the group.
BuiltOp replicated_all_reduce_inplace(OpBuilder& builder, Tensor* input0,
                                      const ReplicatedAllReduceInplaceAttributes& attributes,
                                      std::string_view name = {});

struct ReplicatedReduceScatterAttributes {
  Required<std::string> op;
  Required<bool> sharded;
  Required<std::int64_t> stride;
  Required<std::int64_t> group_size;
};
/// Part i of the flattened reduction of input 0 over the group, padded with zeros to equal parts,
/// on member i. With op `local` every member cuts its own input. Attribute sharded: the result
/// keeps the shape of input 0 as its meta shape.
BuiltOp replicated_reduce_scatter(OpBuilder& builder, Tensor* input0,
                                  const ReplicatedReduceScatterAttributes& attributes,
                                  std::string_view name = {});

struct TensorParallelAllReduceAttributes {
  Required<std::string> op;
  Required<bool> reduce;
  Required<bool> reduce_gradient;
  Required<std::int64_t> stride;
  Required<std::int64_t> group_size;
};
/// The reduction (attribute op: add or mean) of input 0 over the group where attribute reduce says
/// so, else input 0; its gradient likewise by reduce_gradient.
BuiltOp tensor_parallel_all_reduce(OpBuilder& builder, Tensor* input0,
                                   const TensorParallelAllReduceAttributes& attributes,
                                   std::string_view name = {});

}  // namespace pando::ops
