// Adam and LAMB updaters; part of the optimizer family.
#pragma once

#include "pando/ir/op_def.hpp"

namespace pando {

void register_adam_ops(Registry& registry);

}  // namespace pando
