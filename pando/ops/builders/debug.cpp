// Written by scripts/write_builders.py from the registry: run ./dev generate.
// clang-format off
#include "pando/ops/builders/debug.hpp"

#include <utility>

namespace pando::ops {

BuiltOp check_range(OpBuilder& builder, Tensor* input0, const CheckRangeAttributes& attributes,
                    std::string_view name) {
  Attributes given;
  set_attribute(given, "low", attributes.low);
  set_attribute(given, "end", attributes.end);
  set_attribute(given, "what", attributes.what);
  return build_op(builder, "CheckRange", {input0}, std::move(given), name);
}

BuiltOp print_tensor(OpBuilder& builder, Tensor* input0, const PrintTensorAttributes& attributes,
                     std::string_view name) {
  Attributes given;
  set_attribute(given, "title", attributes.title);
  set_attribute(given, "print_self", attributes.print_self);
  set_attribute(given, "print_gradient", attributes.print_gradient);
  set_attribute(given, "summarise_threshold", attributes.summarise_threshold);
  set_attribute(given, "edge_items", attributes.edge_items);
  set_attribute(given, "max_line_width", attributes.max_line_width);
  set_attribute(given, "digits", attributes.digits);
  set_attribute(given, "float_format", attributes.float_format);
  set_attribute(given, "separator", attributes.separator);
  set_attribute(given, "open_bracket", attributes.open_bracket);
  set_attribute(given, "close_bracket", attributes.close_bracket);
  return build_op(builder, "PrintTensor", {input0}, std::move(given), name);
}

}  // namespace pando::ops
