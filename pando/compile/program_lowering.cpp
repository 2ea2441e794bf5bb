#include "pando/compile/program_lowering.hpp"

#include <algorithm>
#include <set>
#include <unordered_map>

#include "pando/base/error.hpp"
#include "pando/compile/device_streams.hpp"
#include "pando/compile/function_lowering.hpp"

namespace pando {
namespace {

/// Storages that more than one part of the main graph touches must outlive a run.
std::unordered_set<const Tensor*> roots_of_several_parts(const Graph& graph,
                                                         const Placements& placements) {
  const auto normal = [](const Op* op) {
    return op->context.execution == ExecutionContext::Normal;
  };
  if (std::all_of(graph.ops().begin(), graph.ops().end(), normal)) return {};
  std::unordered_map<const Tensor*, std::set<ExecutionContext>> parts;
  for (const Op* op : graph.ops()) {
    const auto touch = [&](const Tensor* tensor) {
      if (tensor != nullptr) parts[placements.of(tensor).root].insert(op->context.execution);
    };
    for (const Tensor* input : op->inputs()) touch(input);
    for (const Tensor* output : op->outputs()) touch(output);
  }
  std::unordered_set<const Tensor*> result;
  for (const auto& [root, contexts] : parts) {
    if (contexts.size() > 1 && root->producer() != nullptr) result.insert(root);
  }
  return result;
}

void check_remote(const Tensor& variable, const RemoteBufferDesc& buffer, std::int64_t replicas) {
  const VariableSettings& settings = variable.settings();
  const std::string start =
      str_cat("the variable '", variable.id(), "', ", info_text(variable.info),
              ", cannot live in slot ", settings.slot, " of remote buffer ", buffer.id, ": ");
  if (settings.slot >= buffer.entries) {
    throw Error(str_cat(start, "the buffer has ", buffer.entries, " entries"));
  }
  const std::int64_t part =
      (variable.info.num_elements() + settings.shard_over - 1) / settings.shard_over;
  // A slot that is larger than a part just makes the parts larger, and the last ones emptier.
  const std::int64_t slot = num_elements(buffer.shape);
  const bool fits = settings.shard_over > 1 ? slot >= part : slot == part;
  if (buffer.dtype != variable.dtype() || !fits) {
    throw Error(str_cat(start, "a slot holds ", shape_text(buffer.shape), " ", buffer.dtype,
                        "; each of ", settings.shard_over, " parts has ", part, " elements"));
  }
  const std::int64_t group_size = replicas / settings.num_groups();
  if (group_size % settings.shard_over != 0) {
    throw Error(str_cat(start, settings.shard_over, " parts cannot be spread over groups of ",
                        group_size, " replicas"));
  }
}

void add_remote_variables(const Ir& ir, ProgramTables& tables, Program& program) {
  if (ir.remote_buffers().empty()) return;
  for (const Tensor* tensor : ir.main_graph().tensors().sources()) {
    const VariableSettings& settings = tensor->settings();
    if (tensor->kind() != TensorKind::Variable || settings.remote_buffer == 0) continue;
    const int index = tables.remote_buffer(settings.remote_buffer);
    if (index < 0) {
      throw Error(str_cat("the variable '", tensor->id(), "' lives in remote buffer ",
                          settings.remote_buffer, ", which does not exist"));
    }
    check_remote(*tensor, program.remote_buffers[static_cast<std::size_t>(index)],
                 ir.replication_factor);
    program.remote_variables.push_back(
        {tensor->id(), tensor->dtype(), tensor->shape(), index, settings});
  }
}

}  // namespace

StepProgram lower_program(const Ir& ir, Target& target, std::int64_t prefetch_bytes,
                          const std::vector<std::string>& phases) {
  StepProgram steps;
  Program& program = steps.tables;
  steps.prefetch_bytes = prefetch_bytes;
  steps.devices_share_memory = target.devices_share_memory();
  ProgramTables tables(steps, ir, target);
  CalledFunctions functions(steps, tables);
  for (const std::string& phase : phases) {
    const TextTable::Index nothing = tables.phase("");
    program.sources.add({nothing, nothing, tables.phase(phase)});
  }
  const Graph& main = ir.main_graph();
  steps.device_numbers = devices_of(ir);
  program.devices = static_cast<std::int64_t>(steps.device_numbers.size());
  // All of it is the first device's until storages have devices.
  program.persistent_bytes.resize(steps.device_numbers.size());
  const Placements placements(main);
  MainPart part{ExecutionContext::Normal, roots_of_several_parts(main, placements)};
  const auto lower_part = [&](ExecutionContext execution) {
    part.execution = execution;
    StepFunction function = lower_function({&main, {}}, placements, &part, tables, functions);
    if (function.name.empty()) function.name = "main";
    steps.functions.push_back(std::move(function));
    return static_cast<std::int32_t>(steps.functions.size()) - 1;
  };
  const auto has_part = [&](ExecutionContext execution) {
    return std::any_of(main.ops().begin(), main.ops().end(),
                       [&](const Op* op) { return op->context.execution == execution; });
  };
  program.main_function = lower_part(ExecutionContext::Normal);
  if (has_part(ExecutionContext::WeightsFromHost)) {
    program.weights_from_host_function = lower_part(ExecutionContext::WeightsFromHost);
  }
  if (has_part(ExecutionContext::WeightsToHost)) {
    program.weights_to_host_function = lower_part(ExecutionContext::WeightsToHost);
  }
  add_remote_variables(ir, tables, program);
  program.replicas = ir.replication_factor;
  return steps;
}

}  // namespace pando
