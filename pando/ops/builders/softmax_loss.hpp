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

struct NllAttributes {
  Required<std::string> reduction;
  std::optional<std::int64_t> ignore_index = std::nullopt;
  std::optional<bool> log_prob = std::nullopt;
};
/// Inputs: 0 probs (D1..Dk, classes), 1 labels (D1..Dk) of an integer dtype. Attributes: reduction
/// (mean, sum, none), ignore_index (optional), log_prob. Per label: -ln(max(p, eps)), eps 1e-7
/// (float16: 6.104e-5), or -p with log_prob; labels out of range have p = 0; ignored ones give 0.
/// mean divides by the number of labels, with ignore_index by max(kept, 1). Output: loss, dtype of
/// probs, shape () or that of labels.
BuiltOp nll(OpBuilder& builder, Tensor* input0, Tensor* input1, const NllAttributes& attributes,
            std::string_view name = {});

struct NllGradAttributes {
  Required<std::string> reduction;
  std::optional<std::int64_t> ignore_index = std::nullopt;
  std::optional<bool> log_prob = std::nullopt;
};
/// Inputs: 0 g (gradient of the loss), 1 probs, 2 labels. Attributes as Nll. Output: gradient of
/// probs: g * k * -1/max(p, e) at the label (log_prob: -g * k), 0 elsewhere; e 1e-10 (float16:
/// 6.104e-5); k is 1/M or 1/max(kept, 1) for mean, else 1.
BuiltOp nll_grad(OpBuilder& builder, Tensor* input0, Tensor* input1, Tensor* input2,
                 const NllGradAttributes& attributes, std::string_view name = {});

struct NlllWithSoftmaxGradDirectAttributes {
  Required<std::string> reduction;
  std::optional<std::int64_t> ignore_index = std::nullopt;
  std::optional<bool> from_scores = std::nullopt;
};
/// Inputs: 0 probs = softmax(logits) (D1..Dk, classes), 1 labels (any shape of D1 * .. * Dk
/// elements, in row-major order), 2 loss_grad (optional; scalar, or label-shaped for none; float16,
/// bfloat16 or float32). Attributes: reduction (mean, sum, none), ignore_index (optional),
/// from_scores. Outputs: 0 loss: -ln(p + 1e-7) reduced as Nll (never scaled by loss_grad), 1 dx =
/// (probs - onehot(labels)) * loss_grad * k, k = 1/M or 1/max(kept, 1) for mean, else 1; rows of
/// ignored labels are 0. from_scores (float32): input 0 is the logits.
BuiltOp nlll_with_softmax_grad_direct(OpBuilder& builder, Tensor* input0, Tensor* input1,
                                      const NlllWithSoftmaxGradDirectAttributes& attributes,
                                      Tensor* input2 = nullptr, std::string_view name = {});

struct SoftmaxAttributes {
  Required<std::int64_t> axis;
  std::optional<double> scale = std::nullopt;
  std::optional<Ints> band = std::nullopt;
};
/// Inputs: 0 t (float). Attributes: axis, scale (default 1), band. t seen as [prod(shape[:axis]),
/// prod(shape[axis:])]: every row becomes exp(scale * (x - max)) / sum(exp(scale * (x - max))).
/// With band [lower, upper] (axis is the last) only of columns j of row i of each matrix with
/// -lower <= j - i <= upper; the others are not read and become 0.
BuiltOp softmax(OpBuilder& builder, Tensor* input0, const SoftmaxAttributes& attributes,
                std::string_view name = {});

struct SoftmaxGradAttributes {
  Required<std::int64_t> axis;
  std::optional<double> scale = std::nullopt;
  std::optional<Ints> band = std::nullopt;
};
/// Inputs: 0 out (the softmax), 1 g. Attributes: axis, scale (default 1), band. scale * out * (g -
/// sum(g * out)) over the rows of Softmax. With band [lower, upper] only of the columns that
/// Softmax has in it; the others are not read and become 0.
BuiltOp softmax_grad(OpBuilder& builder, Tensor* input0, Tensor* input1,
                     const SoftmaxGradAttributes& attributes, std::string_view name = {});

}  // namespace pando::ops
