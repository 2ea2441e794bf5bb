// Written by scripts/write_builders.py from the registry: run ./dev generate.
// clang-format off
#include "pando/ops/builders/init.hpp"

#include <utility>

namespace pando::ops {

BuiltOp fill(OpBuilder& builder, const FillAttributes& attributes, std::string_view name) {
  Attributes given;
  set_attribute(given, "shape", attributes.shape);
  set_attribute(given, "dtype", attributes.dtype);
  set_attribute(given, "value", attributes.value);
  return build_op(builder, "Fill", {}, std::move(given), name);
}

BuiltOp init(OpBuilder& builder, const InitAttributes& attributes, std::string_view name) {
  Attributes given;
  set_attribute(given, "shape", attributes.shape);
  set_attribute(given, "dtype", attributes.dtype);
  set_attribute(given, "init_type", attributes.init_type);
  set_attribute(given, "meta_shape", attributes.meta_shape);
  return build_op(builder, "Init", {}, std::move(given), name);
}

}  // namespace pando::ops
