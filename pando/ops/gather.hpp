// The indexing family is spread over several files; each registers its part.
#pragma once

#include "pando/ir/op_def.hpp"

namespace pando {

void register_scatter_ops(Registry& registry);
void register_dynamic_slice_ops(Registry& registry);
void register_one_hot_ops(Registry& registry);

/// GatherElements(t, indices): out[p] = t[p with coordinate `axis` replaced by indices[p]].
Tensor* gather_elements(OpBuilder& builder, Tensor* t, Tensor* indices, std::int64_t axis);

}  // namespace pando
