// Resampling and region pooling; part of the normalisation family's file group.
#pragma once

#include "pando/ir/op_def.hpp"

namespace pando {

void register_resample_ops(Registry& registry);

}  // namespace pando
