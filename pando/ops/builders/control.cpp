// Written by scripts/write_builders.py from the registry: run ./dev generate.
// clang-format off
#include "pando/ops/builders/control.hpp"

#include <utility>

namespace pando::ops {

BuiltOp call(OpBuilder& builder, Graph& graph0, const std::vector<Tensor*>& inputs,
             const CallAttributes& attributes, std::string_view name) {
  Attributes given;
  set_attribute(given, "modified", attributes.modified);
  return build_op(builder, "Call", inputs, std::move(given), name, {&graph0});
}

BuiltOp conditional(OpBuilder& builder, Graph& graph0, Graph& graph1,
                    const std::vector<Tensor*>& inputs, const IfAttributes& attributes,
                    std::string_view name) {
  Attributes given;
  set_attribute(given, "num_then_inputs", attributes.num_then_inputs);
  return build_op(builder, "If", inputs, std::move(given), name, {&graph0, &graph1});
}

BuiltOp loop(OpBuilder& builder, Graph& graph0, const std::vector<Tensor*>& inputs,
             const LoopAttributes& attributes, std::string_view name) {
  Attributes given;
  set_attribute(given, "trip_count", attributes.trip_count);
  set_attribute(given, "modified", attributes.modified);
  return build_op(builder, "Loop", inputs, std::move(given), name, {&graph0});
}

BuiltOp while_loop(OpBuilder& builder, Graph& graph0, const std::vector<Tensor*>& inputs,
                   const WhileAttributes& attributes, std::string_view name) {
  Attributes given;
  set_attribute(given, "max_iterations", attributes.max_iterations);
  set_attribute(given, "history", attributes.history);
  set_attribute(given, "modified", attributes.modified);
  return build_op(builder, "While", inputs, std::move(given), name, {&graph0});
}

}  // namespace pando::ops
