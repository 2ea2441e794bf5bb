#include "pando/transforms/pass_registry.hpp"

#include "pando/transforms/bands.hpp"
#include "pando/transforms/concat_views.hpp"
#include "pando/transforms/constant_fold.hpp"
#include "pando/transforms/cse.hpp"
#include "pando/transforms/dead_code.hpp"
#include "pando/transforms/elide_identities.hpp"
#include "pando/transforms/expand.hpp"
#include "pando/transforms/inline_calls.hpp"
#include "pando/transforms/plain_softmax.hpp"
#include "pando/transforms/scale_checks.hpp"
#include "pando/transforms/unused_outputs.hpp"

namespace pando {
namespace {

template <class Change>
std::function<void(Ir&)> every_graph(Change change) {
  return [change](Ir& ir) {
    for (Graph* graph : ir.graphs()) change(*graph);
  };
}

}  // namespace

const std::vector<Pass>& all_passes() {
  static const std::vector<Pass> passes = {
      {"concat_views", "Copies writes to and from in-place concatenations.",
       every_graph(keep_concat_views)},
      {"inline_calls", "Puts the bodies of small and single-use graphs in place of their calls.",
       [](Ir& ir) { inline_calls(ir); }},
      {"expand", "Rewrites composite ops into simpler ones.", every_graph(expand)},
      {"constant_fold", "Computes what depends on small constants alone.",
       every_graph([](Graph& graph) { fold_constants(graph); })},
      {"check_log2_scales", "Checks the scales of float8 ops when they run.",
       every_graph(check_log2_scales)},
      {"cse", "Merges equal computations.",
       every_graph([](Graph& graph) { eliminate_common_subexpressions(graph); })},
      {"plain_softmax", "Softmax without subtracting the maximum.", every_graph(use_plain_softmax)},
      {"dead_code", "Removes ops that no result depends on.",
       [](Ir& ir) { eliminate_dead_code(ir); }},
      {"elide_identities", "Removes copies of values that nothing else reads.",
       every_graph(elide_identities)},
      {"bands", "Skips what masks of attention hide.", find_bands},
      {"unused_outputs", "Takes outputs that nobody uses away from calls and called graphs.",
       drop_unused_outputs},
      {"unreachable_graphs", "Removes graphs that the main graph cannot reach.",
       erase_unreachable_graphs},
  };
  return passes;
}

const Pass& find_pass(std::string_view name) { return find_named_pass(all_passes(), "pass", name); }

}  // namespace pando
