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

struct RecurrentSequenceAttributes {
  Required<std::string> cell;
  std::optional<bool> reverse = std::nullopt;
};
/// All steps of a recurrent layer in one direction. Inputs: 0 parts (steps, batch, gates * hidden),
/// what the inputs add to the gates, 1 weights W (gates * hidden, hidden), 2 bias (gates * hidden,
/// only gru), 3 first state (batch, hidden), 4 first cell state (only lstm); absent states are 0.
/// Attributes: cell, reverse (from the last step to the first; default false). With p = parts and q
/// = W h: lstm (gates i, f, g, o): c = s(pf + qf) c + s(pi + qi) tanh(pg + qg), h = s(po + qo)
/// tanh(c); gru (r, z, n; q with the bias): n = tanh(pn + s(pr + qr) qn), h = (1 - s(pz + qz)) n +
/// s(pz + qz) h; tanh, relu: h = f(p + q). Outputs: 0 the states h (steps, batch, hidden), 1 (lstm,
/// gru) gates for the gradient (steps, batch, 4 * hidden): i, f, g, o or r, z, n, qn, 2 (lstm) the
/// cell states.
BuiltOp recurrent_sequence(OpBuilder& builder, Tensor* input0, Tensor* input1,
                           const RecurrentSequenceAttributes& attributes, Tensor* input2 = nullptr,
                           Tensor* input3 = nullptr, Tensor* input4 = nullptr,
                           std::string_view name = {});

struct RecurrentSequenceGradAttributes {
  Required<std::string> cell;
  std::optional<bool> reverse = std::nullopt;
};
/// Inputs: 0 weights, 1 states (output 0 of RecurrentSequence), 2 gradient of the states, 3
/// gradient of the cell states, 4 gates (output 1), 5 cell states (output 2), 6 first state, 7
/// first cell state; absent gradients and states are 0. Attributes: those of RecurrentSequence.
/// Outputs: 0 gradient of the parts, 1 gradient of the first state, 2 lstm: gradient of the first
/// cell state; gru: gradient of W h + bias (steps, batch, gates * hidden), which is that of the
/// parts for the other cells.
BuiltOp recurrent_sequence_grad(OpBuilder& builder, Tensor* input0, Tensor* input1, Tensor* input2,
                                Tensor* input3, Tensor* input4, Tensor* input5, Tensor* input6,
                                Tensor* input7, const RecurrentSequenceGradAttributes& attributes,
                                std::string_view name = {});

}  // namespace pando::ops
