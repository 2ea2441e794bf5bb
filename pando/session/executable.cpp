#include "pando/session/executable.hpp"

#include "pando/base/hash.hpp"
#include "pando/custom/library_kernel.hpp"
#include "pando/program/serialise.hpp"

namespace pando {
namespace {

std::vector<StreamDesc> streams_of(const Program& program, bool host_to_device) {
  std::vector<StreamDesc> streams;
  for (const StreamDesc& stream : program.streams) {
    if (stream.host_to_device == host_to_device) streams.push_back(stream);
  }
  return streams;
}

std::vector<VariableLayout> variables_of(const Program& program) {
  std::vector<VariableLayout> variables;
  variables.reserve(program.persistent.size() + program.remote_variables.size());
  for (std::size_t i = 0; i < program.persistent.size(); ++i) {
    const PersistentTensor& tensor = program.persistent[i];
    if (!tensor.is_variable) continue;
    const std::size_t bytes = value_bytes(tensor.dtype, tensor.shape);
    variables.push_back({tensor.id, tensor.settings, bytes, bytes, -1, i});
  }
  for (const RemoteVariable& variable : program.remote_variables) {
    const RemoteBufferDesc& slots =
        program.remote_buffers[static_cast<std::size_t>(variable.buffer)];
    variables.push_back({variable.id, variable.settings,
                         value_bytes(variable.dtype, variable.shape),
                         value_bytes(slots.dtype, slots.shape), variable.buffer, 0});
  }
  return variables;
}

}  // namespace

std::unordered_map<std::string, std::shared_ptr<HostArray>> constants_by_id(const Ir& ir) {
  std::unordered_map<std::string, std::shared_ptr<HostArray>> constants;
  for (const Graph* graph : ir.graphs()) {
    for (const Tensor* tensor : graph->tensors().sources()) {
      if (tensor->kind() != TensorKind::Constant || tensor->data == nullptr) continue;
      constants.emplace(tensor->id(), tensor->data);
    }
  }
  return constants;
}

Executable::Executable(Program program, std::vector<ProgramConstant> constants, std::string target)
    : program_(std::move(program)),
      constants_(std::move(constants)),
      target_(std::move(target)),
      variables_(variables_of(program_)),
      input_streams_(streams_of(program_, true)),
      output_streams_(streams_of(program_, false)) {}

std::vector<std::int64_t> Executable::state_tensors() const {
  std::vector<bool> is_constant(program_.persistent.size());
  for (const ProgramConstant& constant : constants_) is_constant[constant.persistent] = true;
  std::vector<std::int64_t> indices;
  for (std::size_t i = 0; i < is_constant.size(); ++i) {
    if (!is_constant[i] && !program_.persistent[i].is_prepared)
      indices.push_back(static_cast<std::int64_t>(i));
  }
  return indices;
}

std::uint64_t Executable::fingerprint() const {
  Program program = program_;
  program.sources = {};
  const TextTable::Index nothing = program.sources.add_text("");
  for (std::size_t i = 0; i < program_.sources.size(); ++i) {
    const TextTable::Index op = program.sources.add_text(program_.sources[i].op);
    program.sources.add({op, nothing, nothing});
  }
  for (KernelSpec& spec : program.kernels) spec.attributes.erase(kLibrarySiteAttribute);
  program.memory = {};
  return hash64(serialise_program(program));
}

}  // namespace pando
