// Written by scripts/write_builders.py from the registry: run ./dev generate.
// clang-format off
#include "pando/ops/builders/all_reduce.hpp"

#include <utility>

namespace pando::ops {

BuiltOp all_reduce(OpBuilder& builder, const std::vector<Tensor*>& inputs,
                   const AllReduceAttributes& attributes, std::string_view name) {
  Attributes given;
  set_attribute(given, "op", attributes.op);
  set_attribute(given, "devices", attributes.devices);
  set_attribute(given, "form", attributes.form);
  return build_op(builder, "AllReduce", inputs, std::move(given), name);
}

BuiltOp all_reduce_grad(OpBuilder& builder, const std::vector<Tensor*>& inputs,
                        const AllReduceGradAttributes& attributes, std::string_view name) {
  Attributes given;
  set_attribute(given, "op", attributes.op);
  set_attribute(given, "devices", attributes.devices);
  set_attribute(given, "form", attributes.form);
  return build_op(builder, "AllReduceGrad", inputs, std::move(given), name);
}

}  // namespace pando::ops
