// Passes and a kind of device that are there to be added.
#include "pando/ir/graph.hpp"
#include "pando/runtime/device_kind.hpp"
#include "pando/steps/step_function.hpp"
#include "tests/conformance/fake_device.hpp"

namespace pando {

void mark_functions(StepProgram& program) {
  for (StepFunction& function : program.functions) function.name = "marked " + function.name;
}

void mark_ops(Graph& graph) {
  for (Op* op : graph.ops()) op->context.name = "marked";
}

DeviceKind added_device_kind() { return testing::fake_device_kind(); }

}  // namespace pando
