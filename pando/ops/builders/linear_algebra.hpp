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

/// Inputs: 0 t (..., n, n). The lower triangular L with L L^T = (t + t^T) / 2; NaN where that is
/// not positive definite.
BuiltOp cholesky(OpBuilder& builder, Tensor* input0, std::string_view name = {});

struct TriangularSolveAttributes {
  std::optional<bool> upper = std::nullopt;
  std::optional<bool> transpose = std::nullopt;
  std::optional<bool> unit_diagonal = std::nullopt;
};
/// Inputs: 0 t (..., n, n), of which one triangle is read, 1 b (..., n, columns). Attributes,
/// default false: upper (the upper triangle, else the lower one), transpose, unit_diagonal (the
/// diagonal is not read and counts as 1). x with t x = b; with transpose t^T x = b.
BuiltOp triangular_solve(OpBuilder& builder, Tensor* input0, Tensor* input1,
                         const TriangularSolveAttributes& attributes = {},
                         std::string_view name = {});

}  // namespace pando::ops
