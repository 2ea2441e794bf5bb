#include <algorithm>
#include <map>
#include <set>

#include "pando/base/alignment.hpp"
#include "pando/base/error.hpp"
#include "pando/compile/function_lowering.hpp"

namespace pando {
namespace {

/// Storages that more than one part of the main graph touches must outlive a run.
std::vector<const Tensor*> roots_of_several_parts(const Graph& graph,
                                                  const Placements& placements) {
  const auto normal = [](const Op* op) {
    return op->context.execution == ExecutionContext::Normal;
  };
  if (std::all_of(graph.ops().begin(), graph.ops().end(), normal)) return {};
  std::map<const Tensor*, std::set<ExecutionContext>> parts;
  for (const Op* op : graph.ops()) {
    const auto touch = [&](const Tensor* tensor) {
      if (tensor != nullptr) parts[placements.of(tensor).root].insert(op->context.execution);
    };
    for (const Tensor* input : op->inputs()) touch(input);
    for (const Tensor* output : op->outputs()) touch(output);
  }
  std::vector<const Tensor*> result;
  for (const auto& [root, contexts] : parts) {
    if (contexts.size() > 1 && root->producer() != nullptr) result.push_back(root);
  }
  return result;
}

std::string source_text(const Op& op) {
  return op.context.name.empty() ? op.kind() : str_cat(op.kind(), " '", op.context.name, "'");
}

}  // namespace

StepProgram ProgramLowering::run(const Ir& ir, const std::vector<std::string>& phases) {
  for (const std::string& phase : phases) {
    const TextTable::Index nothing = phase_text("");
    program_.sources.add({nothing, nothing, phase_text(phase)});
  }
  const Graph& main = ir.main_graph();
  steps_.device_numbers = devices_of(ir);
  program_.devices = static_cast<std::int64_t>(steps_.device_numbers.size());
  program_.main_function = lower_main(main, ExecutionContext::Normal);
  const auto has_part = [&](ExecutionContext part) {
    return std::any_of(main.ops().begin(), main.ops().end(),
                       [&](const Op* op) { return op->context.execution == part; });
  };
  if (has_part(ExecutionContext::WeightsFromHost)) {
    program_.weights_from_host_function = lower_main(main, ExecutionContext::WeightsFromHost);
  }
  if (has_part(ExecutionContext::WeightsToHost)) {
    program_.weights_to_host_function = lower_main(main, ExecutionContext::WeightsToHost);
  }
  add_remote_variables(ir);
  program_.replicas = ir.replication_factor;
  return std::move(steps_);
}

int ProgramLowering::lower_main(const Graph& graph, ExecutionContext part) {
  const Placements placements(graph);
  shared_roots_ = roots_of_several_parts(graph, placements);
  FunctionLowering lowering(*this, graph, placements, {}, part);
  StepFunction function = lowering.run();
  if (function.name.empty()) function.name = "main";
  return add_function(std::move(function));
}

int ProgramLowering::function_of(const FunctionRequest& request) {
  std::vector<FunctionRequest> pending = {request};
  while (!pending.empty()) {
    const FunctionRequest next = pending.back();
    if (is_lowered(next)) {
      pending.pop_back();
      continue;
    }
    const std::size_t before = pending.size();
    for (const Op* op : next.graph->ops()) {
      for (FunctionRequest& callee : callees_of(*op)) {
        if (!is_lowered(callee)) pending.push_back(std::move(callee));
      }
    }
    if (pending.size() == before) lower_function(next);
    std::reverse(pending.begin() + static_cast<std::ptrdiff_t>(before), pending.end());
  }
  return functions_.at({request.graph, request.writable});
}

void ProgramLowering::lower_function(const FunctionRequest& request) {
  const Placements placements(*request.graph);
  StepFunction function = FunctionLowering(*this, *request.graph, placements, request.writable,
                                           std::nullopt, request.carried)
                              .run();
  functions_[{request.graph, request.writable}] = add_function(std::move(function));
}

int ProgramLowering::add_function(StepFunction function) {
  steps_.functions.push_back(std::move(function));
  return static_cast<int>(steps_.functions.size()) - 1;
}

std::int32_t ProgramLowering::device_index(const Op& op) const {
  const std::vector<std::int64_t>& devices = steps_.device_numbers;
  const auto it = std::lower_bound(devices.begin(), devices.end(), device_of(op));
  return static_cast<std::int32_t>(it - devices.begin());
}

const std::vector<bool>& ProgramLowering::written_inputs(const Graph& graph) {
  const auto it = written_inputs_.find(&graph);
  if (it != written_inputs_.end()) return it->second;
  return written_inputs_[&graph] = modified_graph_inputs(graph, AliasClasses(graph));
}

std::int64_t ProgramLowering::global_offset(const Tensor& root) {
  const auto it = globals_.find(&root);
  if (it != globals_.end()) return it->second;
  if (root.settings.remote_buffer > 0) {
    throw Error(str_cat("the variable '", root.id(), "' lives in remote buffer ",
                        root.settings.remote_buffer,
                        " and has no value on the device: load it with ops.remote_load"));
  }
  const std::int64_t offset = program_.persistent_bytes;
  program_.persistent_bytes += align_bytes(static_cast<std::int64_t>(root.info.bytes()));
  program_.persistent.push_back({root.id(), root.dtype(), root.shape(), offset,
                                 root.kind() == TensorKind::Variable, root.settings});
  return globals_[&root] = offset;
}

PreparedKernel ProgramLowering::prepared_kernel(const KernelSpec& spec, const Op* op) {
  std::shared_ptr<const Kernel> kernel;
  try {
    kernel = target_.prepare(spec);
  } catch (const InternalError&) {
    throw;
  } catch (const Error& refusal) {
    if (op == nullptr) throw;
    throw Error(str_cat(describe(*op), ": ", refusal.what()));
  }
  const auto [it, inserted] =
      kernels_.try_emplace(kernel.get(), static_cast<int>(program_.kernels.size()));
  if (inserted) program_.kernels.push_back(spec);
  return {it->second, kernel->scratch_bytes()};
}

int ProgramLowering::stream_index(const Ir& ir, const Op& op) {
  const std::string& id = op.attributes.text("stream");
  auto& streams = program_.streams;
  const auto it = std::find_if(streams.begin(), streams.end(),
                               [&](const StreamDesc& stream) { return stream.id == id; });
  if (it != streams.end()) return static_cast<int>(it - streams.begin());
  const Stream* stream = ir.find_stream(id);
  if (stream == nullptr)
    throw Error(str_cat(describe(op), ": there is no stream called '", id, "'"));
  streams.push_back({id, stream->handle->dtype(), stream->handle->shape(),
                     stream->direction == StreamDirection::HostToDevice});
  return static_cast<int>(streams.size()) - 1;
}

int ProgramLowering::buffer_index(const Ir& ir, const Op& op) {
  const std::int64_t id = op.attributes.integer("buffer");
  const int index = buffer_index(ir, id);
  if (index < 0) throw Error(str_cat(describe(op), ": there is no remote buffer with id ", id));
  return index;
}

int ProgramLowering::buffer_index(const Ir& ir, std::int64_t id) {
  auto& buffers = program_.remote_buffers;
  const auto it = std::find_if(buffers.begin(), buffers.end(),
                               [&](const RemoteBufferDesc& buffer) { return buffer.id == id; });
  if (it != buffers.end()) return static_cast<int>(it - buffers.begin());
  for (const auto& buffer : ir.remote_buffers()) {
    if (buffer->id != id) continue;
    buffers.push_back({id, buffer->info.dtype, buffer->info.shape, buffer->entries});
    return static_cast<int>(buffers.size()) - 1;
  }
  return -1;
}

int ProgramLowering::source_index(const Op& op) {
  const auto it = sources_.find(&op);
  if (it != sources_.end()) return it->second;
  const TextTable::Index text = program_.sources.add_text(source_text(op));
  const TextTable::Index location =
      source_locations_.of(op, [&](std::string_view at) { return program_.sources.add_text(at); });
  program_.sources.add({text, location, phase_text(op.context.phase)});
  return sources_[&op] = static_cast<int>(program_.sources.size()) - 1;
}

TextTable::Index ProgramLowering::storage_location(const Op& op) {
  return storage_locations_.of(op, [&](std::string_view at) { return steps_.texts.add(at); });
}

TextTable::Index ProgramLowering::phase_text(const std::string& phase) {
  const auto it = phases_.find(phase);
  if (it != phases_.end()) return it->second;
  return phases_[phase] = program_.sources.add_text(phase);
}

}  // namespace pando
