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

struct DropoutAttributes {
  Required<double> p;
};
/// Inputs: 0 t (float), 1 seed (2,) uint32. Attributes: p. Each element is 0 with probability p,
/// else t / (1 - p). The gradient is Dropout of g with the same seed: the same mask.
BuiltOp dropout(OpBuilder& builder, Tensor* input0, Tensor* input1,
                const DropoutAttributes& attributes, std::string_view name = {});

struct DropoutCoreAttributes {
  Required<double> p;
};
/// Internal, pointwise Dropout. Inputs: 0 t, 1 and 2 the words of the seed. Attributes: p.
BuiltOp dropout_core(OpBuilder& builder, Tensor* input0, Tensor* input1, Tensor* input2,
                     const DropoutCoreAttributes& attributes, std::string_view name = {});

struct DropoutMaskAttributes {
  Required<Ints> shape;
  Required<double> ratio;
};
/// Internal. Inputs: 0 and 1 the words of a seed. Attributes: shape, ratio. Bool tensor of shape,
/// false with probability ratio.
BuiltOp dropout_mask(OpBuilder& builder, Tensor* input0, Tensor* input1,
                     const DropoutMaskAttributes& attributes, std::string_view name = {});

/// Inputs: 0 seed (2,) uint32, 1 modifier (uint32 scalar). [seed[0], a fresh uniform word drawn
/// with key (seed[0], seed[1] + modifier)].
BuiltOp modify_random_seed(OpBuilder& builder, Tensor* input0, Tensor* input1,
                           std::string_view name = {});

/// Internal, pointwise ModifyRandomSeed. Inputs: 0 and 1 the words of the seed, 2 the modifier.
BuiltOp modify_random_seed_core(OpBuilder& builder, Tensor* input0, Tensor* input1, Tensor* input2,
                                std::string_view name = {});

struct RandomNormalAttributes {
  Required<Ints> shape;
  Required<DType> dtype;
  Required<double> mean;
  Required<double> std;
};
/// Inputs: 0 seed (2,) uint32. Attributes: shape, dtype (float16, bfloat16, float32), mean, std.
/// Normally distributed.
BuiltOp random_normal(OpBuilder& builder, Tensor* input0, const RandomNormalAttributes& attributes,
                      std::string_view name = {});

struct RandomNormalCoreAttributes {
  Required<Ints> shape;
  Required<DType> dtype;
  Required<double> mean;
  Required<double> std;
};
/// Internal, pointwise RandomNormal. Inputs: 0 and 1 the words of the seed. Attributes as there.
BuiltOp random_normal_core(OpBuilder& builder, Tensor* input0, Tensor* input1,
                           const RandomNormalCoreAttributes& attributes,
                           std::string_view name = {});

struct RandomUniformAttributes {
  Required<Ints> shape;
  Required<DType> dtype;
  Required<double> low;
  Required<double> high;
};
/// Inputs: 0 seed (2,) uint32. Attributes: shape, dtype (float16, bfloat16, float32), low, high.
/// Uniform in [low, high).
BuiltOp random_uniform(OpBuilder& builder, Tensor* input0,
                       const RandomUniformAttributes& attributes, std::string_view name = {});

struct RandomUniformCoreAttributes {
  Required<Ints> shape;
  Required<DType> dtype;
  Required<double> low;
  Required<double> high;
};
/// Internal, pointwise RandomUniform. Inputs: 0 and 1 the words of the seed. Attributes as there.
BuiltOp random_uniform_core(OpBuilder& builder, Tensor* input0, Tensor* input1,
                            const RandomUniformCoreAttributes& attributes,
                            std::string_view name = {});

/// Internal. Inputs: 0 t (float), 1 scale (float scalar of any dtype). t * scale rounded once to
/// t's dtype.
BuiltOp scale_by_scalar(OpBuilder& builder, Tensor* input0, Tensor* input1,
                        std::string_view name = {});

struct ShapedDropoutAttributes {
  Required<Ints> shape;
  Required<double> ratio;
};
/// Inputs: 0 t (float), 1 seed (2,) uint32. Attributes: shape, ratio. One mask of shape, broadcast
/// against t: 0 with probability ratio, else t / (1 - ratio). Its gradient is ShapedDropout of g
/// with the same seed.
BuiltOp shaped_dropout(OpBuilder& builder, Tensor* input0, Tensor* input1,
                       const ShapedDropoutAttributes& attributes, std::string_view name = {});

}  // namespace pando::ops
