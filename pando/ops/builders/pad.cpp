// Written by scripts/write_builders.py from the registry: run ./dev generate.
// clang-format off
#include "pando/ops/builders/pad.hpp"

#include <utility>

namespace pando::ops {

BuiltOp pad(OpBuilder& builder, Tensor* input0, const PadAttributes& attributes,
            std::string_view name) {
  Attributes given;
  set_attribute(given, "pads", attributes.pads);
  set_attribute(given, "mode", attributes.mode);
  set_attribute(given, "value", attributes.value);
  return build_op(builder, "Pad", {input0}, std::move(given), name);
}

BuiltOp pad_grad(OpBuilder& builder, Tensor* input0, const PadGradAttributes& attributes,
                 std::string_view name) {
  Attributes given;
  set_attribute(given, "pads", attributes.pads);
  set_attribute(given, "mode", attributes.mode);
  set_attribute(given, "input_shape", attributes.input_shape);
  return build_op(builder, "PadGrad", {input0}, std::move(given), name);
}

}  // namespace pando::ops
