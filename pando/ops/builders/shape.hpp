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

struct BroadcastToAttributes {
  Required<Ints> shape;
};
/// Input 0 repeated by NumPy broadcasting to attribute shape.
BuiltOp broadcast_to(OpBuilder& builder, Tensor* input0, const BroadcastToAttributes& attributes,
                     std::string_view name = {});

struct ConcatAttributes {
  Required<std::int64_t> axis;
};
/// The inputs one after the other along attribute axis. A kernel.
BuiltOp concat(OpBuilder& builder, const std::vector<Tensor*>& inputs,
               const ConcatAttributes& attributes, std::string_view name = {});

struct ConcatGradAttributes {
  Required<std::int64_t> axis;
  Required<std::int64_t> start;
  Required<std::int64_t> size;
};
/// Elements [start, start + size) of attribute axis of input g.
BuiltOp concat_grad(OpBuilder& builder, Tensor* input0, const ConcatGradAttributes& attributes,
                    std::string_view name = {});

struct ConcatInplaceAttributes {
  Required<std::int64_t> axis;
};
/// The inputs one after the other along attribute axis. The result has a storage of its own; the
/// transform keep_concat_views makes writes to it reach the inputs, and back.
BuiltOp concat_inplace(OpBuilder& builder, const std::vector<Tensor*>& inputs,
                       const ConcatInplaceAttributes& attributes, std::string_view name = {});

struct PadIntoAttributes {
  Required<Ints> shape;
  Required<Ints> starts;
  Required<Ints> steps;
};
/// Zeros of attribute shape with element i of input 0 at starts[d] + steps[d] i[d] in every
/// dimension d. A kernel.
BuiltOp pad_into(OpBuilder& builder, Tensor* input0, const PadIntoAttributes& attributes,
                 std::string_view name = {});

struct ReshapeAttributes {
  Required<Ints> shape;
};
/// Input 0 in C order under attribute shape (no -1, same number of elements).
BuiltOp reshape(OpBuilder& builder, Tensor* input0, const ReshapeAttributes& attributes,
                std::string_view name = {});

struct ReshapeGradAttributes {
  Required<Ints> shape;
};
/// Input g under attribute shape.
BuiltOp reshape_grad(OpBuilder& builder, Tensor* input0, const ReshapeGradAttributes& attributes,
                     std::string_view name = {});

struct ReshapeInplaceAttributes {
  Required<Ints> shape;
};
/// An alias of input 0 under attribute shape.
BuiltOp reshape_inplace(OpBuilder& builder, Tensor* input0,
                        const ReshapeInplaceAttributes& attributes, std::string_view name = {});

struct SliceAttributes {
  Required<Ints> starts;
  Required<Ints> steps;
  Required<Ints> counts;
};
/// Elements starts[d] + steps[d] i, 0 <= i < counts[d], of every dimension d of input 0. All three
/// attributes have one entry per dimension; steps may be negative.
BuiltOp slice(OpBuilder& builder, Tensor* input0, const SliceAttributes& attributes,
              std::string_view name = {});

struct SliceGradAttributes {
  Required<Ints> shape;
  Required<Ints> starts;
  Required<Ints> steps;
};
/// Zeros of attribute shape with input g at starts[d] + steps[d] i.
BuiltOp slice_grad(OpBuilder& builder, Tensor* input0, const SliceGradAttributes& attributes,
                   std::string_view name = {});

struct SliceInplaceAttributes {
  Required<Ints> starts;
  Required<Ints> steps;
  Required<Ints> counts;
};
/// An alias of the window of input 0 that Slice describes.
BuiltOp slice_inplace(OpBuilder& builder, Tensor* input0, const SliceInplaceAttributes& attributes,
                      std::string_view name = {});

struct SplitAttributes {
  Required<std::int64_t> axis;
  Required<Ints> sizes;
};
/// Consecutive parts of input 0 along attribute axis, one output per entry of attribute sizes.
BuiltOp split(OpBuilder& builder, Tensor* input0, const SplitAttributes& attributes,
              std::string_view name = {});

struct SplitGradAttributes {
  Required<std::int64_t> axis;
};
/// The gradients of the parts, joined along attribute axis.
BuiltOp split_grad(OpBuilder& builder, const std::vector<Tensor*>& inputs,
                   const SplitGradAttributes& attributes, std::string_view name = {});

struct SubsampleAttributes {
  Required<Ints> strides;
};
/// Every strides[d]-th element of each dimension d of input 0, from 0.
BuiltOp subsample(OpBuilder& builder, Tensor* input0, const SubsampleAttributes& attributes,
                  std::string_view name = {});

struct SubsampleGradAttributes {
  Required<Ints> shape;
  Required<Ints> strides;
};
/// Zeros of attribute shape with input g at strides[d] i.
BuiltOp subsample_grad(OpBuilder& builder, Tensor* input0,
                       const SubsampleGradAttributes& attributes, std::string_view name = {});

struct TransposeAttributes {
  Required<Ints> permutation;
};
/// Axis k of the result is axis permutation[k] of input 0.
BuiltOp transpose(OpBuilder& builder, Tensor* input0, const TransposeAttributes& attributes,
                  std::string_view name = {});

struct TransposeGradAttributes {
  Required<Ints> permutation;
};
/// Axis k of the result is axis permutation[k] of input g.
BuiltOp transpose_grad(OpBuilder& builder, Tensor* input0,
                       const TransposeGradAttributes& attributes, std::string_view name = {});

struct TransposeInplaceAttributes {
  Required<Ints> permutation;
};
/// An alias of input 0 whose axis k is axis permutation[k].
BuiltOp transpose_inplace(OpBuilder& builder, Tensor* input0,
                          const TransposeInplaceAttributes& attributes, std::string_view name = {});

}  // namespace pando::ops
