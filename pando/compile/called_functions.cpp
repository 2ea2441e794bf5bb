#include "pando/compile/called_functions.hpp"

#include <algorithm>
#include <utility>

#include "pando/base/error.hpp"
#include "pando/compile/function_lowering.hpp"
#include "pando/ir/loop_arguments.hpp"

namespace pando {

std::int32_t CalledFunctions::known_index(const FunctionRequest& request) const {
  const auto of_graph = functions_.find(request.graph);
  if (of_graph == functions_.end()) return -1;
  for (const Lowered& lowered : of_graph->second) {
    if (lowered.request == request) return lowered.index;
  }
  return -1;
}

std::int32_t CalledFunctions::index_of(const FunctionRequest& request) {
  if (const std::int32_t known = known_index(request); known >= 0) return known;
  std::vector<FunctionRequest> pending = {request};
  while (!pending.empty()) {
    const FunctionRequest next = pending.back();
    if (known_index(next) >= 0) {
      pending.pop_back();
      continue;
    }
    const std::size_t before = pending.size();
    for (const Op* op : next.graph->ops()) {
      for (FunctionRequest& callee : callees_of(*op)) {
        if (known_index(callee) < 0) pending.push_back(std::move(callee));
      }
    }
    if (pending.size() == before) lower(next);
    std::reverse(pending.begin() + static_cast<std::ptrdiff_t>(before), pending.end());
  }
  return known_index(request);
}

void CalledFunctions::lower(const FunctionRequest& request) {
  const Placements placements(*request.graph);
  StepFunction function = lower_function(request, placements, nullptr, tables_, *this);
  steps_.functions.push_back(std::move(function));
  functions_[request.graph].push_back(
      {request, static_cast<std::int32_t>(steps_.functions.size()) - 1});
}

std::vector<bool> CalledFunctions::written_arguments(const Op& op, const Graph& callee,
                                                     int first_op_input, int first_graph_input,
                                                     int count) {
  const std::vector<bool>& written = written_inputs(callee);
  const InputSet modified = op.modified_inputs();
  std::vector<bool> result;
  result.reserve(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) {
    const std::int64_t graph_input = std::int64_t{first_graph_input} + i;
    result.push_back(written[static_cast<std::size_t>(graph_input)] &&
                     modified.contains(first_op_input + i));
  }
  return result;
}

const std::vector<bool>& CalledFunctions::written_inputs(const Graph& graph) {
  const auto it = written_inputs_.find(&graph);
  if (it != written_inputs_.end()) return it->second;
  return written_inputs_[&graph] = modified_graph_inputs(graph, AliasClasses(graph));
}

std::vector<FunctionRequest> CalledFunctions::callees_of(const Op& op) {
  if (op.called_graphs.empty()) return {};
  const Graph& callee = *op.called_graphs[0];
  if (op.def().is_call) return {{&callee, written_arguments(op, callee, 0, 0, op.num_inputs())}};
  if (op.def().is_loop) {
    const int user_inputs = std::max(op.num_inputs() - kLoopControlInputs, 0);
    std::vector<bool> writable =
        written_arguments(op, callee, kLoopControlInputs, kLoopControlInputs, user_inputs);
    // What is carried is always a copy that the body may write.
    std::fill_n(writable.begin(), op.num_outputs(), true);
    writable.insert(writable.begin(), kLoopControlInputs, false);
    return {{&callee, std::move(writable), op.num_outputs()}};
  }
  internal_check(op.kind() == OpKind::If,
                 "an op that calls graphs must be a call, a loop or a conditional");
  const int then_count = static_cast<int>(op.attributes.integer("num_then_inputs"));
  const int else_count = op.num_inputs() - 1 - then_count;
  const Graph& otherwise = *op.called_graphs[1];
  return {{&callee, written_arguments(op, callee, 1, 0, then_count)},
          {&otherwise, written_arguments(op, otherwise, 1 + then_count, 0, else_count)}};
}

}  // namespace pando
