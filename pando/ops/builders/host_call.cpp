// Written by scripts/write_builders.py from the registry: run ./dev generate.
// clang-format off
#include "pando/ops/builders/host_call.hpp"

#include <utility>

namespace pando::ops {

BuiltOp host_call(OpBuilder& builder, const std::vector<Tensor*>& inputs,
                  const HostCallAttributes& attributes, std::string_view name) {
  Attributes given;
  set_attribute(given, "function", attributes.function);
  set_attribute(given, "output_dtypes", attributes.output_dtypes);
  set_attribute(given, "output_ranks", attributes.output_ranks);
  set_attribute(given, "output_sizes", attributes.output_sizes);
  set_attribute(given, "gradient", attributes.gradient);
  return build_op(builder, "HostCall", inputs, std::move(given), name);
}

}  // namespace pando::ops
