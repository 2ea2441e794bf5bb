#include "pando/backends/cpu/fused/chain_steps.hpp"

#include <algorithm>

#include "pando/backends/cpu/fused/chain_functions.hpp"
#include "pando/backends/cpu/fused/nodes.hpp"
#include "pando/backends/cpu/fused/uniform_division.hpp"

namespace pando::cpu {

bool has_steps(const NodeGraph& graph) {
  return std::all_of(graph.nodes.begin(), graph.nodes.end(), [](const Node& n) {
    if (n.kind == Node::Kind::StoreTile) return false;
    if (n.kind == Node::Kind::StoreRaw) return n.lane_bytes == 4;
    return n.kind != Node::Kind::Tile || n.uniform || n.uses == 0 || is_sigmoid(n);
  });
}

std::vector<ChainStep> chain_steps(const NodeGraph& graph, const std::vector<int>& order,
                                   const std::function<int(int)>& slot_of,
                                   std::size_t first_output) {
  std::vector<ChainStep> steps;
  steps.reserve(order.size());
  std::vector<int> step_of(graph.nodes.size(), kNoOperand);
  for (int id : order) {
    const Node& n = graph.nodes[static_cast<std::size_t>(id)];
    ChainStep step;
    step.operands.fill(kNoOperand);
    for (std::size_t k = 0; k < step.operands.size(); ++k) {
      const int operand = n.operands[k];
      if (operand < 0) continue;
      const int made = step_of[static_cast<std::size_t>(operand)];
      step.operands[k] = made != kNoOperand ? made : block_in_slot(slot_of(operand));
    }
    if (is_sigmoid(n)) {
      step_of[static_cast<std::size_t>(id)] = append_sigmoid(step.operands[0], steps);
      continue;
    }
    if (const UniformDivision* division = uniform_division(graph, id)) {
      const auto block = [&](int node) { return block_in_slot(slot_of(node)); };
      step_of[static_cast<std::size_t>(id)] = append_quotient(
          step.operands[0],
          {block(division->magnitude), block(division->reciprocal), block(division->scale)}, steps);
      continue;
    }
    if (n.is_store()) {
      step.kind =
          n.kind == Node::Kind::StoreHalf ? ChainStep::Kind::StoreHalf : ChainStep::Kind::Store;
      step.output_slot = static_cast<int>(first_output) + n.index;
    } else {
      step.op = n.chain;
      step_of[static_cast<std::size_t>(id)] = static_cast<int>(steps.size());
    }
    steps.push_back(step);
  }
  return steps;
}

bool is_read_after_store(const std::vector<ChainStep>& steps, int input_slot, int output_slot) {
  bool stored = false;
  for (const ChainStep& step : steps) {
    const bool reads = std::find(step.operands.begin(), step.operands.end(),
                                 block_in_slot(input_slot)) != step.operands.end();
    if (reads && stored) return true;
    const bool is_store = step.kind != ChainStep::Kind::Compute;
    stored = stored || (is_store && step.output_slot == output_slot);
  }
  return false;
}

}  // namespace pando::cpu
