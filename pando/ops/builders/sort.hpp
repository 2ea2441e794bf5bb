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

struct ArgMaxAttributes {
  Required<std::int64_t> axis;
  std::optional<bool> keepdims = std::nullopt;
};
/// Inputs: 0 t. Attributes: axis, keepdims (default false). int32 index of the largest element
/// along axis; the lowest index among equals.
BuiltOp arg_max(OpBuilder& builder, Tensor* input0, const ArgMaxAttributes& attributes,
                std::string_view name = {});

struct ArgMinAttributes {
  Required<std::int64_t> axis;
  std::optional<bool> keepdims = std::nullopt;
};
/// Inputs: 0 t. Attributes: axis, keepdims (default false). int32 index of the smallest element
/// along axis; the lowest index among equals.
BuiltOp arg_min(OpBuilder& builder, Tensor* input0, const ArgMinAttributes& attributes,
                std::string_view name = {});

struct BucketizeAttributes {
  std::optional<bool> right = std::nullopt;
};
/// Inputs: 0 t, 1 boundaries (vector, ascending, dtype of t). Attributes: right (default false).
/// int32 i with boundaries[i-1] < x <= boundaries[i] for each element x of t; with right
/// boundaries[i-1] <= x < boundaries[i]. NaN gives the number of boundaries.
BuiltOp bucketize(OpBuilder& builder, Tensor* input0, Tensor* input1,
                  const BucketizeAttributes& attributes = {}, std::string_view name = {});

struct CumProdAttributes {
  Required<std::int64_t> axis;
  std::optional<bool> reverse = std::nullopt;
};
/// Inclusive running product. Inputs: 0 t. Attributes: axis, reverse (default false: from the first
/// element on).
BuiltOp cum_prod(OpBuilder& builder, Tensor* input0, const CumProdAttributes& attributes,
                 std::string_view name = {});

struct CumProdGradAttributes {
  Required<std::int64_t> axis;
  Required<bool> reverse;
};
/// Inputs: 0 g, 1 t. Attributes: axis, reverse (of the CumProd). sum over i >= k of g[i] times the
/// product of t[j], j <= i, j != k: right where t is 0.
BuiltOp cum_prod_grad(OpBuilder& builder, Tensor* input0, Tensor* input1,
                      const CumProdGradAttributes& attributes, std::string_view name = {});

struct CumSumAttributes {
  std::optional<std::int64_t> axis = std::nullopt;
  std::optional<bool> reverse = std::nullopt;
};
/// Inclusive running sum. Inputs: 0 t, 1 axis (optional int64 constant, negative allowed).
/// Attributes: axis (when input 1 is absent), reverse (default false: from the first element on).
/// Kernels see attributes axis and reverse and one input.
BuiltOp cum_sum(OpBuilder& builder, Tensor* input0, const CumSumAttributes& attributes = {},
                Tensor* input1 = nullptr, std::string_view name = {});

struct CumSumGradAttributes {
  Required<std::int64_t> axis;
  Required<bool> reverse;
};
/// Inputs: 0 g. Attributes: axis, reverse (of the CumSum). Running sum in the opposite direction.
BuiltOp cum_sum_grad(OpBuilder& builder, Tensor* input0, const CumSumGradAttributes& attributes,
                     std::string_view name = {});

struct HistogramAttributes {
  Required<Floats> levels;
  Required<bool> absolute_of_input;
};
/// Inputs: 0 t (float16, bfloat16 or float32). Attributes: levels (strictly increasing),
/// absolute_of_input. uint32 counts, shape (len(levels) + 1,): x < l0, l[i-1] <= x < l[i], x >=
/// l[-1]; of |x| with absolute_of_input.
BuiltOp histogram(OpBuilder& builder, Tensor* input0, const HistogramAttributes& attributes,
                  std::string_view name = {});

struct SortAttributes {
  Required<std::int64_t> axis;
  std::optional<bool> descending = std::nullopt;
};
/// Inputs: 0 t. Attributes: axis, descending (default false). Outputs: 0 the elements along axis in
/// order, 1 their int32 indices; equals keep their order; NaN counts as the largest.
BuiltOp sort(OpBuilder& builder, Tensor* input0, const SortAttributes& attributes,
             std::string_view name = {});

struct TopKAttributes {
  Required<std::int64_t> axis;
  Required<std::int64_t> k;
  Required<bool> largest;
  Required<bool> sorted;
};
/// Inputs: 0 t. Attributes: axis, k, largest, sorted. Outputs: 0 the k largest (smallest) elements
/// along axis, 1 their int32 indices; sorted: descending (ascending); equals by lowest index.
BuiltOp top_k(OpBuilder& builder, Tensor* input0, const TopKAttributes& attributes,
              std::string_view name = {});

struct TopKGradAttributes {
  Required<std::int64_t> axis;
  Required<Ints> input_shape;
};
/// Inputs: 0 g, 1 indices (output 1 of TopK). Attributes: axis, input_shape. g placed into zeros of
/// input_shape at the indices.
BuiltOp top_k_grad(OpBuilder& builder, Tensor* input0, Tensor* input1,
                   const TopKGradAttributes& attributes, std::string_view name = {});

}  // namespace pando::ops
