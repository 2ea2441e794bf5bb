// Which graphs run which. All walks keep their own stack: nested calls may be thousands deep.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "pando/ir/graph.hpp"

namespace pando {

/// Distinct graphs called by ops of `graph`, in order of first call.
std::vector<Graph*> called_graphs(const Graph& graph);

/// `roots` and the graphs that they call, directly or through others, each once and after those
/// that it calls. Neither `skip`ped graphs nor what only they call are among them.
std::vector<Graph*> callees_first(const std::vector<Graph*>& roots,
                                  const std::function<bool(const Graph&)>& skip = {});

/// `needs 1 called graphs, has 0`; empty if `op` has as many as its kind needs.
std::string called_graphs_fault(const Op& op);

/// To be called for every new op. Throws ValueError if it calls the main graph or a graph that runs
/// the graph of the op.
void note_calls(const Op& op);

/// The graphs on a way of calls from a graph of the Ir back to itself, which comes first and last;
/// empty if there is none.
std::vector<const Graph*> find_recursion(const Ir& ir);

/// `'a', which calls 'b', which calls 'a'`.
std::string call_chain_text(const std::vector<const Graph*>& chain);

}  // namespace pando
