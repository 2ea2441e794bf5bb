// Written by scripts/write_builders.py from the registry: run ./dev generate.
// clang-format off
#include "pando/ops/builders/fold.hpp"

#include <utility>

namespace pando::ops {

BuiltOp fold(OpBuilder& builder, Tensor* input0, const FoldAttributes& attributes,
             std::string_view name) {
  Attributes given;
  set_attribute(given, "kernel_size", attributes.kernel_size);
  set_attribute(given, "strides", attributes.strides);
  set_attribute(given, "pads", attributes.pads);
  set_attribute(given, "dilations", attributes.dilations);
  set_attribute(given, "output_size", attributes.output_size);
  return build_op(builder, "Fold", {input0}, std::move(given), name);
}

BuiltOp unfold(OpBuilder& builder, Tensor* input0, const UnfoldAttributes& attributes,
               std::string_view name) {
  Attributes given;
  set_attribute(given, "kernel_size", attributes.kernel_size);
  set_attribute(given, "strides", attributes.strides);
  set_attribute(given, "pads", attributes.pads);
  set_attribute(given, "dilations", attributes.dilations);
  return build_op(builder, "Unfold", {input0}, std::move(given), name);
}

}  // namespace pando::ops
