#include "pando/transforms/pass_registry.hpp"

namespace pando {

#define PANDO_GRAPH_PASS(name, function, doc) void function(Graph& graph);
#define PANDO_IR_PASS(name, function, doc) void function(Ir& ir);
#include "pando/transforms/passes.def"

const std::vector<Pass>& all_passes() {
  static const std::vector<Pass> passes = {
#define PANDO_GRAPH_PASS(name, function, doc)            \
  {name, doc, [](Ir& ir) {                               \
     for (Graph * graph : ir.graphs()) function(*graph); \
   }},
#define PANDO_IR_PASS(name, function, doc) {name, doc, function},
#include "pando/transforms/passes.def"
  };
  return passes;
}

const Pass& find_pass(std::string_view name) { return find_named_pass(all_passes(), "pass", name); }

}  // namespace pando
