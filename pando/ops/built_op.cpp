#include "pando/ops/built_op.hpp"

#include "pando/ops/ops.hpp"

namespace pando::ops {

BuiltOp build_op(OpBuilder& builder, std::string_view kind, std::vector<Tensor*> inputs,
                 Attributes attributes, std::string_view name, std::vector<Graph*> called_graphs) {
  const OpDef& def = op_registry().get(kind);
  const auto required = static_cast<std::size_t>(def.min_inputs);
  if (def.max_inputs >= 0) {
    while (inputs.size() > required && inputs.back() == nullptr) inputs.pop_back();
  }
  std::vector<std::string> names;
  if (!name.empty()) names.emplace_back(name);
  return BuiltOp(builder.graph().create_op(def, inputs, std::move(attributes), builder.context(),
                                           std::move(called_graphs), names));
}

}  // namespace pando::ops
