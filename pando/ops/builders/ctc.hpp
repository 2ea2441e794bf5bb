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

struct CtcBeamSearchAttributes {
  Required<std::int64_t> blank;
  Required<std::int64_t> beam_width;
  Required<std::int64_t> top_paths;
};
/// Inputs: 0 log_probs (steps, batch, classes), 1 lengths (batch,), integers. Attributes: blank,
/// beam_width, top_paths. Prefix beam search: keeps the beam_width most probable label sequences of
/// every step. Outputs, best path first: 0 ln of the probabilities (batch, top_paths), 1 int32
/// lengths (batch, top_paths), 2 int32 labels (batch, top_paths, steps), blank behind the end.
/// Paths that do not exist have -infinity and no labels. A length out of range counts as the
/// nearest one in range.
BuiltOp ctc_beam_search(OpBuilder& builder, Tensor* input0, Tensor* input1,
                        const CtcBeamSearchAttributes& attributes, std::string_view name = {});

struct CtcLossAttributes {
  Required<std::int64_t> blank;
  Required<bool> zero_infinity;
};
/// Inputs: 0 log_probs (steps, batch, classes), 1 targets (batch, labels), 2 input_lengths
/// (batch,), 3 target_lengths (batch,); integers. Attributes: blank, zero_infinity. Output
/// (batch,): -ln of the sum over all alignments of the first target_lengths labels with the first
/// input_lengths steps. Without an alignment: infinity, 0 with zero_infinity. NaN where a length or
/// a label is out of range.
BuiltOp ctc_loss(OpBuilder& builder, Tensor* input0, Tensor* input1, Tensor* input2, Tensor* input3,
                 const CtcLossAttributes& attributes, std::string_view name = {});

struct CtcLossGradAttributes {
  Required<std::int64_t> blank;
  Required<bool> zero_infinity;
};
/// Inputs: 0 g (batch,), 1 to 4 the inputs of CtcLoss. Attributes: those of CtcLoss. -g times the
/// probability, given the labels, that step t stands for class c. 0 where the step is past
/// input_lengths; where the loss is infinite 0 with zero_infinity, else NaN; NaN where a length or
/// a label is out of range.
BuiltOp ctc_loss_grad(OpBuilder& builder, Tensor* input0, Tensor* input1, Tensor* input2,
                      Tensor* input3, Tensor* input4, const CtcLossGradAttributes& attributes,
                      std::string_view name = {});

}  // namespace pando::ops
