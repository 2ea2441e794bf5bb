// Written by scripts/write_builders.py from the registry: run ./dev generate.
// clang-format off
#include "pando/ops/builders/grouped_matmul.hpp"

#include <utility>

namespace pando::ops {

BuiltOp grouped_mat_mul(OpBuilder& builder, Tensor* input0, Tensor* input1, Tensor* input2,
                        std::string_view name) {
  return build_op(builder, "GroupedMatMul", {input0, input1, input2}, {}, name);
}

BuiltOp grouped_outer(OpBuilder& builder, Tensor* input0, Tensor* input1, Tensor* input2,
                      std::string_view name) {
  return build_op(builder, "GroupedOuter", {input0, input1, input2}, {}, name);
}

}  // namespace pando::ops
