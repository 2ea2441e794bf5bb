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

struct DynamicSliceAttributes {
  Required<Ints> axes;
  Required<Ints> sizes;
  std::optional<bool> no_overlap = std::nullopt;
};
/// Inputs: 0 t, 1 index (int32 or uint32, one element per axis). Attributes: axes, sizes,
/// no_overlap (no effect on values). The part of t that starts at index[i] and has sizes[i]
/// elements along axes[i]; a copy. A start beyond dim - size is moved back to it.
BuiltOp dynamic_slice(OpBuilder& builder, Tensor* input0, Tensor* input1,
                      const DynamicSliceAttributes& attributes, std::string_view name = {});

struct DynamicSlicePadGradAttributes {
  Required<Ints> axes;
  Required<Ints> sizes;
  Required<Ints> input_shape;
  std::optional<bool> no_overlap = std::nullopt;
};
/// Inputs: 0 g, 1 index. Attributes: axes, sizes, no_overlap, input_shape. g placed into zeros of
/// input_shape at the slice.
BuiltOp dynamic_slice_pad_grad(OpBuilder& builder, Tensor* input0, Tensor* input1,
                               const DynamicSlicePadGradAttributes& attributes,
                               std::string_view name = {});

struct DynamicUpdateAttributes {
  Required<Ints> axes;
  Required<Ints> sizes;
  std::optional<bool> no_overlap = std::nullopt;
};
/// Inputs: 0 t, 1 index (int32 or uint32, one element per axis), 2 t_update (shape of the slice,
/// dtype of t). Attributes: axes, sizes, no_overlap. t with t_update written at the slice that
/// DynamicSlice would cut.
BuiltOp dynamic_update(OpBuilder& builder, Tensor* input0, Tensor* input1, Tensor* input2,
                       const DynamicUpdateAttributes& attributes, std::string_view name = {});

struct DynamicUpdateInplaceAttributes {
  Required<Ints> axes;
  Required<Ints> sizes;
  std::optional<bool> no_overlap = std::nullopt;
};
/// Writes into input 0 in place. Inputs: 0 t, 1 index (int32 or uint32, one element per axis), 2
/// t_update (shape of the slice, dtype of t). Attributes: axes, sizes, no_overlap. t with t_update
/// written at the slice that DynamicSlice would cut.
BuiltOp dynamic_update_inplace(OpBuilder& builder, Tensor* input0, Tensor* input1, Tensor* input2,
                               const DynamicUpdateInplaceAttributes& attributes,
                               std::string_view name = {});

struct DynamicUpdateToUpdateGradAttributes {
  Required<Ints> axes;
  Required<Ints> sizes;
  std::optional<bool> no_overlap = std::nullopt;
};
/// Inputs: 0 g, 1 index. Attributes: axes, sizes, no_overlap. g with the slice set to 0.
BuiltOp dynamic_update_to_update_grad(OpBuilder& builder, Tensor* input0, Tensor* input1,
                                      const DynamicUpdateToUpdateGradAttributes& attributes,
                                      std::string_view name = {});

struct DynamicUpdateUpdaterGradAttributes {
  Required<Ints> axes;
  Required<Ints> sizes;
  std::optional<bool> no_overlap = std::nullopt;
};
/// Inputs: 0 g, 1 index. Attributes: axes, sizes, no_overlap. The slice of g.
BuiltOp dynamic_update_updater_grad(OpBuilder& builder, Tensor* input0, Tensor* input1,
                                    const DynamicUpdateUpdaterGradAttributes& attributes,
                                    std::string_view name = {});

struct GatherAttributes {
  Required<std::int64_t> axis;
  std::optional<std::int64_t> group_size = std::nullopt;
  std::optional<bool> zero_oor = std::nullopt;
};
/// numpy.take. Inputs: 0 t, 1 indices (integer, read as unsigned). Attributes: axis, group_size
/// (default 1; above 1: dimension 0 of t and indices are groups, take(t[b], indices[b], axis - 1)),
/// zero_oor (default false). Output t.shape[:axis] + indices.shape + t.shape[axis+1:]. Indices out
/// of range give zeros with zero_oor, else unspecified values.
BuiltOp gather(OpBuilder& builder, Tensor* input0, Tensor* input1,
               const GatherAttributes& attributes, std::string_view name = {});

struct GatherElementsAttributes {
  Required<std::int64_t> axis;
};
/// Internal. Inputs: 0 t, 1 indices (integer, rank of t, non-negative; no other dimension larger
/// than t's). Attributes: axis. out[p] = t[p with coordinate axis replaced by indices[p]]; out of
/// range gives 0. Output: shape of indices, dtype of t.
BuiltOp gather_elements(OpBuilder& builder, Tensor* input0, Tensor* input1,
                        const GatherElementsAttributes& attributes, std::string_view name = {});

struct GatherGradAttributes {
  Required<std::int64_t> axis;
  Required<Ints> input_shape;
  std::optional<std::int64_t> group_size = std::nullopt;
};
/// Inputs: 0 g (gradient of a Gather's output), 1 indices. Attributes: axis, group_size (default
/// 1), input_shape (shape of the gathered tensor). Adds the rows of g into zeros of input_shape at
/// their indices; indices out of range contribute nothing.
BuiltOp gather_grad(OpBuilder& builder, Tensor* input0, Tensor* input1,
                    const GatherGradAttributes& attributes, std::string_view name = {});

struct OneHotAttributes {
  Required<std::int64_t> num_classes;
  Required<std::int64_t> axis;
};
/// Inputs: 0 indices (integer), 1 values = [off, on]. Attributes: num_classes, axis (-1: new last
/// dimension, else where it is inserted). on where the class number equals the index, off
/// elsewhere. Dtype of values.
BuiltOp one_hot(OpBuilder& builder, Tensor* input0, Tensor* input1,
                const OneHotAttributes& attributes, std::string_view name = {});

struct OneHotGradAttributes {
  Required<std::int64_t> num_classes;
  Required<std::int64_t> axis;
};
/// Inputs: 0 g, 1 indices. Attributes: num_classes, axis. Gradient of OneHot's values: [sum of g
/// where off, sum of g where on].
BuiltOp one_hot_grad(OpBuilder& builder, Tensor* input0, Tensor* input1,
                     const OneHotGradAttributes& attributes, std::string_view name = {});

struct ScatterAttributes {
  Required<std::int64_t> axis;
};
/// ScatterElements. Inputs: 0 t, 1 indices (integer, non-negative), 2 values (shape of indices,
/// dtype of t). Attributes: axis. A copy of t in which, for each position p of indices, the element
/// p with coordinate axis replaced by indices[p] is values[p]; out of range is skipped.
BuiltOp scatter(OpBuilder& builder, Tensor* input0, Tensor* input1, Tensor* input2,
                const ScatterAttributes& attributes, std::string_view name = {});

struct ScatterArgReduceAttributes {
  Required<std::string> reduction;
  Required<std::int64_t> axis;
  std::optional<std::int64_t> axis_size = std::nullopt;
  std::optional<bool> index_broadcast = std::nullopt;
};
/// Inputs: 0 data, 1 indices (integer; data's shape, or a vector along axis), 2 initial_values
/// (optional). Attributes: reduction (min, max), axis, axis_size (when there are no initial
/// values), index_broadcast (default true; false: element semantics, indices may be smaller than
/// data). Outputs: 0 as ScatterReduce, 1 int32 of the same shape, the position along axis of the
/// element of data that each is: the first of equal ones; the size of data along axis where it is
/// an initial value, which beats equal elements, or no element came. NaN beats all. The gradient
/// goes to these elements alone.
BuiltOp scatter_arg_reduce(OpBuilder& builder, Tensor* input0, Tensor* input1,
                           const ScatterArgReduceAttributes& attributes, Tensor* input2 = nullptr,
                           std::string_view name = {});

struct ScatterArgReduceGradAttributes {
  Required<std::int64_t> axis;
  Required<Ints> input_shape;
  Required<bool> has_initial_values;
  std::optional<bool> index_broadcast = std::nullopt;
};
/// Inputs: 0 g, 1 indices, 2 positions (output 1 of ScatterArgReduce). Attributes: those of
/// ScatterArgReduce, input_shape (of data), has_initial_values. Outputs: 0 gradient of data: g at
/// the elements that the positions name, else 0, 1 gradient of initial_values when there are any: g
/// where no element is named, else 0.
BuiltOp scatter_arg_reduce_grad(OpBuilder& builder, Tensor* input0, Tensor* input1, Tensor* input2,
                                const ScatterArgReduceGradAttributes& attributes,
                                std::string_view name = {});

struct ScatterDataGradAttributes {
  Required<std::int64_t> axis;
};
/// Inputs: 0 g, 1 indices. Attributes: axis. g with the scattered positions set to 0.
BuiltOp scatter_data_grad(OpBuilder& builder, Tensor* input0, Tensor* input1,
                          const ScatterDataGradAttributes& attributes, std::string_view name = {});

struct ScatterReduceAttributes {
  Required<std::string> reduction;
  Required<std::int64_t> axis;
  std::optional<std::int64_t> axis_size = std::nullopt;
  std::optional<std::int64_t> group_size = std::nullopt;
  std::optional<bool> index_broadcast = std::nullopt;
};
/// Inputs: 0 data, 1 indices (integer; data's shape, or a vector along axis), 2 initial_values
/// (optional). Attributes: reduction (sum, prod, min, max, none = overwrite), axis, axis_size (when
/// there are no initial values), group_size (default 1), index_broadcast (default true; false:
/// element semantics, indices may be smaller than data). For every position p the element p with
/// coordinate axis replaced by indices[p] is reduced with data[p]. Untouched positions are those of
/// initial_values, 0 without; without, only data takes part. Kernels see indices of data's shape
/// (maybe stride 0) and no group_size or index_broadcast; the output may be larger than data in the
/// other dimensions; out of range is skipped.
BuiltOp scatter_reduce(OpBuilder& builder, Tensor* input0, Tensor* input1,
                       const ScatterReduceAttributes& attributes, Tensor* input2 = nullptr,
                       std::string_view name = {});

struct ScatterReduceGradOpAttributes {
  Required<std::string> reduction;
  Required<std::int64_t> axis;
  Required<Ints> input_shape;
  Required<bool> has_initial_values;
  std::optional<std::int64_t> group_size = std::nullopt;
  std::optional<bool> index_broadcast = std::nullopt;
};
/// Inputs: 0 g, 1 indices, 2 data, 3 initial_values, 4 output (2 to 4 only for prod, min and max).
/// Attributes: those of ScatterReduce, input_shape (of data), has_initial_values. Outputs: 0
/// gradient of data: g gathered (prod: times the other factors; min, max: where data equals the
/// output), 1 gradient of initial_values when there are any: g (prod: times the other factors;
/// none: 0 at written positions; min, max: where they equal the output).
BuiltOp scatter_reduce_grad_op(OpBuilder& builder, Tensor* input0, Tensor* input1,
                               const ScatterReduceGradOpAttributes& attributes,
                               Tensor* input2 = nullptr, Tensor* input3 = nullptr,
                               Tensor* input4 = nullptr, std::string_view name = {});

struct ScatterUpdateGradAttributes {
  Required<std::int64_t> axis;
};
/// Inputs: 0 g, 1 indices. Attributes: axis. g gathered at the scattered positions.
BuiltOp scatter_update_grad(OpBuilder& builder, Tensor* input0, Tensor* input1,
                            const ScatterUpdateGradAttributes& attributes,
                            std::string_view name = {});

struct TiedGatherAttributes {
  Required<std::int64_t> axis;
  std::optional<std::int64_t> group_size = std::nullopt;
  std::optional<bool> zero_oor = std::nullopt;
};
/// The same values as Gather. numpy.take. Inputs: 0 t, 1 indices (integer, read as unsigned).
/// Attributes: axis, group_size (default 1; above 1: dimension 0 of t and indices are groups,
/// take(t[b], indices[b], axis - 1)), zero_oor (default false). Output t.shape[:axis] +
/// indices.shape + t.shape[axis+1:]. Indices out of range give zeros with zero_oor, else
/// unspecified values.
BuiltOp tied_gather(OpBuilder& builder, Tensor* input0, Tensor* input1,
                    const TiedGatherAttributes& attributes, std::string_view name = {});

}  // namespace pando::ops
