// The rules that an op of a library keeps.
#pragma once

#include "pando/custom/op_library.hpp"

namespace pando {

/// A copy of what a library registers. Throws Error, with the op's name, for what breaks a rule of
/// pando_op.h.
LibraryOp checked_op(const pando_op_v1* op);

}  // namespace pando
