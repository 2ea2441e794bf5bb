// The part of the shape family that joins and splits tensors.
#pragma once

#include "pando/ir/op_def.hpp"

namespace pando {

/// Concat, Split and their relatives.
void register_joins(Registry& registry);

/// Elements [start, start + count) of `axis`.
Tensor* slice_axis(OpBuilder& builder, Tensor* t, std::int64_t axis, std::int64_t start,
                   std::int64_t count);

}  // namespace pando
