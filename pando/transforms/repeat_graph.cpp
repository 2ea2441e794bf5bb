#include "pando/transforms/repeat_graph.hpp"

#include <algorithm>

#include "pando/base/error.hpp"
#include "pando/transforms/graph_calls.hpp"

namespace pando {
namespace {

std::vector<Op*> movable_ops(const Graph& graph) {
  std::vector<Op*> ops;
  for (Op* op : graph.ops()) {
    if (op->context.execution == ExecutionContext::Normal) ops.push_back(op);
  }
  return ops;
}

/// Ops that stay may only use what stays.
void check_cut(const std::vector<Op*>& moved) {
  for (const Op* op : moved) {
    for (const Tensor* output : op->outputs()) {
      for (const Use& use : output->uses()) {
        if (use.op->context.execution == ExecutionContext::Normal) continue;
        throw Error(str_cat("repeat_graph: ", describe(*use.op), " moves weights and uses '",
                            output->id(), "', which is made anew in every iteration"));
      }
    }
  }
}

}  // namespace

Graph& repeat_graph(Graph& graph, std::int64_t count, const OpContext& context) {
  if (count < 1)
    throw ValueError(str_cat("repeat_graph: wanted a count of 1 or more; given ", count));
  const std::vector<Op*> moved = movable_ops(graph);
  check_cut(moved);
  Ir& ir = graph.ir();
  Graph& repeated = ir.create_graph("repeat_graph");
  Outliner outliner(repeated);
  for (const Op* op : moved) outliner.copy(*op);
  outliner.mark_written_inputs();
  std::vector<Tensor*> results;  // outputs of `graph` that the moved ops make
  for (Tensor* output : graph.outputs()) {
    const bool made = output->producer() != nullptr && outliner.copy_of(output) != nullptr;
    if (!made || std::find(results.begin(), results.end(), output) != results.end()) continue;
    results.push_back(output);
    repeated.mark_output(outliner.copy_of(output));
  }

  LoopBody body(ir, repeated.id());
  OpBuilder builder(graph, context);
  std::vector<Tensor*> inputs, arguments;
  for (const Tensor* result : results) {
    // Every iteration overwrites them; a loop needs something to start from.
    inputs.push_back(builder.make("Init", {},
                                  {{"shape", result->shape()},
                                   {"dtype", result->dtype()},
                                   {"init_type", std::string("undef")}}));
    body.add_input(*result);
  }
  for (std::size_t i = 0; i < repeated.inputs().size(); ++i) {
    Tensor* argument = outliner.arguments()[i];
    inputs.push_back(argument);
    arguments.push_back(body.add_input(*argument, repeated.inputs()[i]->is_by_ref()));
  }
  const std::vector<Tensor*> last =
      body.finish(graph, count, inputs, call(body.graph(), repeated, arguments, context), context);
  std::vector<Tensor*> outputs = graph.outputs();
  for (std::size_t i = 0; i < results.size(); ++i) {
    std::replace(outputs.begin(), outputs.end(), results[i], last[i]);
  }
  graph.set_outputs(std::move(outputs));
  erase_moved_ops(graph, moved);
  return repeated;
}

}  // namespace pando
