// Written by scripts/write_builders.py from the registry: run ./dev generate.
// clang-format off
#include "pando/ops/builders/linear_algebra.hpp"

#include <utility>

namespace pando::ops {

BuiltOp cholesky(OpBuilder& builder, Tensor* input0, std::string_view name) {
  return build_op(builder, "Cholesky", {input0}, {}, name);
}

BuiltOp triangular_solve(OpBuilder& builder, Tensor* input0, Tensor* input1,
                         const TriangularSolveAttributes& attributes, std::string_view name) {
  Attributes given;
  set_attribute(given, "upper", attributes.upper);
  set_attribute(given, "transpose", attributes.transpose);
  set_attribute(given, "unit_diagonal", attributes.unit_diagonal);
  return build_op(builder, "TriangularSolve", {input0, input1}, std::move(given), name);
}

}  // namespace pando::ops
