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

struct PadAttributes {
  Required<Ints> pads;
  Required<std::string> mode;
  std::optional<double> value = std::nullopt;
};
/// Inputs: 0 t. Attributes: pads (elements before each dimension, then after each; negative ones,
/// in the constant mode only, leave away so many), mode (constant; reflect: the elements next to
/// the edge, backwards, without the edge itself; edge: the edge repeated), value (default 0, of the
/// constant mode).
BuiltOp pad(OpBuilder& builder, Tensor* input0, const PadAttributes& attributes,
            std::string_view name = {});

struct PadGradAttributes {
  Required<Ints> pads;
  Required<std::string> mode;
  Required<Ints> input_shape;
};
/// Inputs: 0 g (gradient of a Pad's output). Attributes: pads, mode (of the Pad), input_shape. For
/// every element of the padded tensor the sum of g where its value went.
BuiltOp pad_grad(OpBuilder& builder, Tensor* input0, const PadGradAttributes& attributes,
                 std::string_view name = {});

}  // namespace pando::ops
