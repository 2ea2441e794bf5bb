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

/// Inputs: 0 x (rows, k), 1 w (groups, k, n), 2 ends. ends (groups) are integers: rows from the end
/// of the group before up to ends[g] belong to group g. An end below the one before counts as that
/// one, an end beyond the rows as their number; rows behind the last end belong to no group. Output
/// (rows, n): x[i] w[g] for row i of group g, zeros for rows that belong to no group.
BuiltOp grouped_mat_mul(OpBuilder& builder, Tensor* input0, Tensor* input1, Tensor* input2,
                        std::string_view name = {});

/// Inputs: 0 x (rows, k), 1 y (rows, n), 2 ends. ends (groups) are integers: rows from the end of
/// the group before up to ends[g] belong to group g. An end below the one before counts as that
/// one, an end beyond the rows as their number; rows behind the last end belong to no group. Output
/// (groups, k, n): the sum of x[i]^T y[i] over the rows i of each group.
BuiltOp grouped_outer(OpBuilder& builder, Tensor* input0, Tensor* input1, Tensor* input2,
                      std::string_view name = {});

}  // namespace pando::ops
