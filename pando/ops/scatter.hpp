// What reductions of scattered elements share.
#pragma once

#include <vector>

#include "pando/ir/op_def.hpp"

namespace pando {

/// Of inputs 0 data, 1 indices and 2 initial_values: the shape and dtype of the result.
std::vector<TensorInfo> infer_scatter_reduce(const Op& op);
/// Of a gradient with inputs 0 g and 1 indices and the attributes input_shape and
/// has_initial_values: the gradients of data and, where there are any, of initial values.
std::vector<TensorInfo> infer_scatter_reduce_grad(const Op& op);

/// The indices in the form of the kernels: one for every element of data, or, for element
/// semantics, of its leading part.
Tensor* scatter_indices(OpBuilder& builder, const Op& op, Tensor* indices, const Shape& data,
                        std::int64_t axis);

/// The leading part of `t` that has `shape`.
Tensor* leading_part(OpBuilder& builder, Tensor* t, const Shape& shape);

/// `t` followed by `value` in every dimension up to `shape`.
Tensor* pad_end(OpBuilder& builder, Tensor* t, const Shape& shape, double value = 0.0);

/// ScatterArgReduce and its gradient.
void register_scatter_arg_ops(Registry& registry);

}  // namespace pando
