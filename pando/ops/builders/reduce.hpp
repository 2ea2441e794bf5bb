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

struct ReduceL1Attributes {
  Required<Ints> axes;
  Required<bool> keepdims;
};
/// Sum of |x| of input 0 over attribute axes.
BuiltOp reduce_l1(OpBuilder& builder, Tensor* input0, const ReduceL1Attributes& attributes,
                  std::string_view name = {});

struct ReduceL1GradAttributes {
  Required<Ints> axes;
  Required<Ints> shape;
};
/// g sign(x) for inputs g, x. Attributes axes and shape (of x): g and out broadcast over the axes.
BuiltOp reduce_l1_grad(OpBuilder& builder, Tensor* input0, Tensor* input1,
                       const ReduceL1GradAttributes& attributes, std::string_view name = {});

struct ReduceL2Attributes {
  Required<Ints> axes;
  Required<bool> keepdims;
};
/// Square root of the sum of x^2 of input 0 over attribute axes. float16 and bfloat16: in float32,
/// rounded once at the end.
BuiltOp reduce_l2(OpBuilder& builder, Tensor* input0, const ReduceL2Attributes& attributes,
                  std::string_view name = {});

struct ReduceL2GradAttributes {
  Required<Ints> axes;
  Required<Ints> shape;
};
/// g x / out for inputs g, x, out; NaN where out is 0. Attributes axes and shape (of x): g and out
/// broadcast over the axes.
BuiltOp reduce_l2_grad(OpBuilder& builder, Tensor* input0, Tensor* input1, Tensor* input2,
                       const ReduceL2GradAttributes& attributes, std::string_view name = {});

struct ReduceLogSumAttributes {
  Required<Ints> axes;
  Required<bool> keepdims;
};
/// ln of the sum of input 0 over attribute axes. float16 and bfloat16: in float32, rounded once at
/// the end.
BuiltOp reduce_log_sum(OpBuilder& builder, Tensor* input0, const ReduceLogSumAttributes& attributes,
                       std::string_view name = {});

struct ReduceLogSumExpAttributes {
  Required<Ints> axes;
  Required<bool> keepdims;
};
/// m + ln of the sum of e^(x - m) over attribute axes, m the maximum; 0 where that is infinite.
/// float16 and bfloat16: in float32, rounded once at the end.
BuiltOp reduce_log_sum_exp(OpBuilder& builder, Tensor* input0,
                           const ReduceLogSumExpAttributes& attributes, std::string_view name = {});

struct ReduceLogSumExpGradAttributes {
  Required<Ints> axes;
  Required<Ints> shape;
};
/// g e^(x - out) for inputs g, x, out. Attributes axes and shape (of x): g and out broadcast over
/// the axes.
BuiltOp reduce_log_sum_exp_grad(OpBuilder& builder, Tensor* input0, Tensor* input1, Tensor* input2,
                                const ReduceLogSumExpGradAttributes& attributes,
                                std::string_view name = {});

struct ReduceLogSumGradAttributes {
  Required<Ints> axes;
  Required<Ints> shape;
};
/// g / (sum of x) for inputs g, x. float16 and bfloat16: the sum and its share in float32.
/// Attributes axes and shape (of x): g and out broadcast over the axes.
BuiltOp reduce_log_sum_grad(OpBuilder& builder, Tensor* input0, Tensor* input1,
                            const ReduceLogSumGradAttributes& attributes,
                            std::string_view name = {});

struct ReduceMaxAttributes {
  Required<Ints> axes;
  Required<bool> keepdims;
};
/// Maximum of input 0 over attribute axes. A kernel.
BuiltOp reduce_max(OpBuilder& builder, Tensor* input0, const ReduceMaxAttributes& attributes,
                   std::string_view name = {});

struct ReduceMaxGradAttributes {
  Required<Ints> axes;
  Required<Ints> shape;
};
/// For inputs g, x, out: g where x equals out, else 0. Attributes axes and shape (of x): g and out
/// broadcast over the axes.
BuiltOp reduce_max_grad(OpBuilder& builder, Tensor* input0, Tensor* input1, Tensor* input2,
                        const ReduceMaxGradAttributes& attributes, std::string_view name = {});

struct ReduceMeanAttributes {
  Required<Ints> axes;
  Required<bool> keepdims;
};
/// Sum of input 0 over attribute axes, then divided by their size n. float16 and bfloat16: both in
/// float32, rounded once at the end; integers of less than 32 bits: both in int32.
BuiltOp reduce_mean(OpBuilder& builder, Tensor* input0, const ReduceMeanAttributes& attributes,
                    std::string_view name = {});

struct ReduceMeanGradAttributes {
  Required<Ints> axes;
  Required<Ints> shape;
};
/// Input g / n, n the size of the axes. float16 and bfloat16: divided in float32. Attributes axes
/// and shape (of x): g and out broadcast over the axes.
BuiltOp reduce_mean_grad(OpBuilder& builder, Tensor* input0,
                         const ReduceMeanGradAttributes& attributes, std::string_view name = {});

struct ReduceMedianAttributes {
  Required<Ints> axes;
  Required<bool> keepdims;
};
/// Lower median of input 0 over attribute axes: element (n - 1) / 2 of the n reduced elements in
/// ascending order. Output 1: its position (int32) among them in C order; the lowest of equals. A
/// kernel.
BuiltOp reduce_median(OpBuilder& builder, Tensor* input0, const ReduceMedianAttributes& attributes,
                      std::string_view name = {});

struct ReduceMedianGradAttributes {
  Required<Ints> axes;
  Required<Ints> shape;
};
/// For inputs g, position: g at the selected element, else 0. Attributes axes and shape (of x): g
/// and out broadcast over the axes.
BuiltOp reduce_median_grad(OpBuilder& builder, Tensor* input0, Tensor* input1,
                           const ReduceMedianGradAttributes& attributes,
                           std::string_view name = {});

struct ReduceMinAttributes {
  Required<Ints> axes;
  Required<bool> keepdims;
};
/// Minimum of input 0 over attribute axes. A kernel.
BuiltOp reduce_min(OpBuilder& builder, Tensor* input0, const ReduceMinAttributes& attributes,
                   std::string_view name = {});

struct ReduceMinGradAttributes {
  Required<Ints> axes;
  Required<Ints> shape;
};
/// For inputs g, x, out: g where x equals out, else 0. Attributes axes and shape (of x): g and out
/// broadcast over the axes.
BuiltOp reduce_min_grad(OpBuilder& builder, Tensor* input0, Tensor* input1, Tensor* input2,
                        const ReduceMinGradAttributes& attributes, std::string_view name = {});

struct ReduceProdAttributes {
  Required<Ints> axes;
  Required<bool> keepdims;
};
/// Product of input 0 over attribute axes. A kernel.
BuiltOp reduce_prod(OpBuilder& builder, Tensor* input0, const ReduceProdAttributes& attributes,
                    std::string_view name = {});

struct ReduceProdGradAttributes {
  Required<Ints> axes;
  Required<Ints> shape;
};
/// For inputs g, x: g times the product of the other elements of x, without a division. Attributes
/// axes and shape (of x): g and out broadcast over the axes.
BuiltOp reduce_prod_grad(OpBuilder& builder, Tensor* input0, Tensor* input1,
                         const ReduceProdGradAttributes& attributes, std::string_view name = {});

struct ReduceSumAttributes {
  Required<Ints> axes;
  Required<bool> keepdims;
};
/// Sum of input 0 over attribute axes. A kernel.
BuiltOp reduce_sum(OpBuilder& builder, Tensor* input0, const ReduceSumAttributes& attributes,
                   std::string_view name = {});

struct ReduceSumGradAttributes {
  Required<Ints> axes;
  Required<Ints> shape;
};
/// Input g. Attributes axes and shape (of x): g and out broadcast over the axes.
BuiltOp reduce_sum_grad(OpBuilder& builder, Tensor* input0,
                        const ReduceSumGradAttributes& attributes, std::string_view name = {});

struct ReduceSumSquareAttributes {
  Required<Ints> axes;
  Required<bool> keepdims;
};
/// Sum of x^2 of input 0 over attribute axes.
BuiltOp reduce_sum_square(OpBuilder& builder, Tensor* input0,
                          const ReduceSumSquareAttributes& attributes, std::string_view name = {});

struct ReduceSumSquareGradAttributes {
  Required<Ints> axes;
  Required<Ints> shape;
};
/// 2 g x for inputs g, x. Attributes axes and shape (of x): g and out broadcast over the axes.
BuiltOp reduce_sum_square_grad(OpBuilder& builder, Tensor* input0, Tensor* input1,
                               const ReduceSumSquareGradAttributes& attributes,
                               std::string_view name = {});

}  // namespace pando::ops
