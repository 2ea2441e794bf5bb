// Registration of every op kind. One function per family, one file per family.
#pragma once

#include "pando/ir/op_def.hpp"

namespace pando {

// clang-format off: one entry a line; version 14 does not settle on a layout
#define PANDO_OP_FAMILIES(X) \
  X(unary)                   \
  X(binary)                  \
  X(activation)              \
  X(compare)                 \
  X(cast)                    \
  X(shape)                   \
  X(reduce)                  \
  X(matmul)                  \
  X(grouped_matmul)          \
  X(control)                 \
  X(stream)                  \
  X(host_call)               \
  X(init)                    \
  X(softmax_loss)            \
  X(attention)               \
  X(conv)                    \
  X(pool)                    \
  X(norm)                    \
  X(batch_norm)              \
  X(gather)                  \
  X(sort)                    \
  X(random)                  \
  X(optimizer)               \
  X(sparse)                  \
  X(collective)              \
  X(all_reduce)              \
  X(pad)                     \
  X(fold)                    \
  X(recurrent)               \
  X(linear_algebra)          \
  X(ctc)                     \
  X(debug)
// clang-format on

#define PANDO_DECLARE_FAMILY(family) void register_##family##_ops(Registry& registry);
PANDO_OP_FAMILIES(PANDO_DECLARE_FAMILY)
#undef PANDO_DECLARE_FAMILY

/// The registry with every op registered (once, thread safe).
const Registry& op_registry();

}  // namespace pando
