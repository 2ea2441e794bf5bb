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

struct CoalesceRowsAttributes {
  Required<std::int64_t> axis;
  Required<std::int64_t> size;
  std::optional<bool> skip_zero_rows = std::nullopt;
};
/// Internal. Inputs: 0 X (float; the shape of a table with dimension axis replaced by that of
/// indices), 1 indices (integer). Attributes: axis, size (rows of the table), skip_zero_rows
/// (default false: whether rows that add up to 0 everywhere are left out). Outputs: 0 the sums of
/// the rows of equal index in the order of the indices, X with one dimension for all indices, 1
/// int64 (number of indices,) the index of each sum, rising. Behind the last sum there are zeros
/// with index -1. Indices out of range are left out.
BuiltOp coalesce_rows(OpBuilder& builder, Tensor* input0, Tensor* input1,
                      const CoalesceRowsAttributes& attributes, std::string_view name = {});

struct SparseAccumulateAttributes {
  Required<std::int64_t> axis;
  std::optional<double> factor = std::nullopt;
};
/// Updates input 0 in place: t[indices[p]] += f * X[p] along the axis; repeated indices add up, in
/// float32 (float64 for such t), before the one rounding of the update. Inputs: 0 t, 1 X (t's shape
/// with dimension axis replaced by the shape of indices), 2 factor (optional scalar), 3 indices
/// (integer), 4 W (optional layout hint, unused). Attributes: axis, factor (constant, default 1).
BuiltOp sparse_accumulate(OpBuilder& builder, Tensor* input0, Tensor* input1, Tensor* input2,
                          Tensor* input3, const SparseAccumulateAttributes& attributes,
                          Tensor* input4 = nullptr, std::string_view name = {});

struct SparseAdamAttributes {
  Required<std::int64_t> axis;
  std::optional<double> learning_rate = std::nullopt;
  std::optional<double> weight_decay = std::nullopt;
  std::optional<double> beta1 = std::nullopt;
  std::optional<double> beta2 = std::nullopt;
  std::optional<double> epsilon = std::nullopt;
  std::optional<bool> skip_zero_rows = std::nullopt;
  std::optional<bool> coalesced = std::nullopt;
};
/// Adam on some rows of a table, in place: m = beta1*m + (1-beta1)*g, v = beta2*v + (1-beta2)*g^2,
/// t -= learning_rate * (mc / (sqrt(vc) + epsilon) + weight_decay*t), mc and vc as in AdamUpdater.
/// Other rows of t, m and v stay as they are. Inputs: 0 t, 1 acc_first_order m, 2 acc_second_order
/// v, 3 X, 4 indices (optional integers), 5 time_step (optional float32 scalar, incremented in
/// place first), 6 learning_rate, 7 weight_decay, 8 beta1, 9 beta2, 10 epsilon (optional scalars).
/// Attributes: axis, learning_rate, weight_decay, beta1, beta2, epsilon (constants where the input
/// is absent), skip_zero_rows, coalesced (default false: indices are rising and -1 behind the
/// last). With indices, X has t's shape with dimension axis replaced by theirs, g is the sum of the
/// rows of X of one index, and the rows are those with an index, with skip_zero_rows those whose g
/// is not all 0. Without, g is X of t's shape, and the rows are those that are not all 0 in it.
BuiltOp sparse_adam(OpBuilder& builder, Tensor* input0, Tensor* input1, Tensor* input2,
                    Tensor* input3, const SparseAdamAttributes& attributes,
                    Tensor* input4 = nullptr, Tensor* input5 = nullptr, Tensor* input6 = nullptr,
                    Tensor* input7 = nullptr, Tensor* input8 = nullptr, Tensor* input9 = nullptr,
                    Tensor* input10 = nullptr, std::string_view name = {});

struct UpdateRowsAttributes {
  Required<std::int64_t> axis;
};
/// Internal. Updates input 0 in place: row indices[p] along the axis becomes row p of X. Inputs: 0
/// t, 1 X (t's shape with the number of indices at axis, t's dtype), 2 indices (an integer vector;
/// no two in range are equal, those out of range are skipped). Attributes: axis.
BuiltOp update_rows(OpBuilder& builder, Tensor* input0, Tensor* input1, Tensor* input2,
                    const UpdateRowsAttributes& attributes, std::string_view name = {});

}  // namespace pando::ops
