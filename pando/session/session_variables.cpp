// Variables between their host arrays and the replicas.
#include <algorithm>
#include <cstring>

#include "pando/base/error.hpp"
#include "pando/runtime/engine.hpp"
#include "pando/runtime/replica_team.hpp"
#include "pando/session/session.hpp"

namespace pando {
namespace {

std::size_t value_bytes(DType dtype, const Shape& shape) {
  return static_cast<std::size_t>(num_elements(shape)) * dtype_bytes(dtype);
}

/// Position of a replica among those of its group.
std::int64_t index_in_group(const VariableSettings& settings, std::int64_t replica) {
  std::int64_t index = 0;
  for (std::int64_t other = 0; other < replica; ++other) {
    index += settings.group_of(other) == settings.group_of(replica) ? 1 : 0;
  }
  return index;
}

}  // namespace

void Session::collect_variables(const Ir& ir) {
  const auto source_of = [&](const std::string& id) {
    const Tensor* source = ir.main_graph().find_tensor(id);
    internal_check(source != nullptr, "a variable of the program must come from the Ir");
    return source->data;
  };
  const auto add = [&](HostVariable variable, const std::string& id) {
    const auto entries =
        static_cast<std::size_t>(variable.settings.host_entries(program_.replicas));
    const std::size_t groups = variable.settings.groups.size();
    const bool fits = groups == 0 || groups == static_cast<std::size_t>(program_.replicas);
    if (!fits || variable.data->bytes != entries * variable.bytes) {
      throw ValueError(str_cat("the variable '", id,
                               "' was made for another number of replicas "
                               "than the ",
                               program_.replicas, " of the program: wanted ",
                               entries * variable.bytes, " bytes of host data; given ",
                               variable.data->bytes));
    }
    variables_.push_back(std::move(variable));
  };
  variables_.reserve(program_.persistent.size() + program_.remote_variables.size());
  for (std::size_t i = 0; i < program_.persistent.size(); ++i) {
    const PersistentTensor& tensor = program_.persistent[i];
    if (!tensor.is_variable) continue;
    const std::size_t bytes = value_bytes(tensor.dtype, tensor.shape);
    add({source_of(tensor.id), tensor.settings, bytes, bytes, -1, i}, tensor.id);
  }
  for (const RemoteVariable& variable : program_.remote_variables) {
    const auto buffer = static_cast<std::size_t>(variable.buffer);
    const RemoteBufferDesc& slots = program_.remote_buffers[buffer];
    add({source_of(variable.id), variable.settings, value_bytes(variable.dtype, variable.shape),
         value_bytes(slots.dtype, slots.shape), variable.buffer, 0},
        variable.id);
  }
}

void Session::upload_constants(Engine& engine) {
  for (const ProgramConstant& constant : constants_) {
    std::memcpy(engine.persistent(constant.persistent), constant.data->data, constant.data->bytes);
  }
}

void Session::read_device(const HostVariable& variable, std::int64_t replica, std::byte* to,
                          std::size_t bytes) const {
  Engine& engine = *engines_[static_cast<std::size_t>(replica)];
  if (variable.remote_buffer < 0) {
    std::memcpy(to, engine.persistent(variable.persistent), bytes);
  } else {
    engine.load_remote(static_cast<std::size_t>(variable.remote_buffer), variable.settings.slot, to,
                       bytes, stop_check_);
  }
}

StopCheck Session::stop_check_of(std::int64_t replica) const {
  return stop_check(team_->should_stop(static_cast<int>(replica)));
}

std::int64_t Session::part_of(const HostVariable& variable, std::int64_t replica) const {
  return index_in_group(variable.settings, replica) % variable.settings.shard_over;
}

void Session::upload(const HostVariable& variable, std::int64_t replica) const {
  const VariableSettings& settings = variable.settings;
  const std::int64_t entry = settings.entry_per_replica ? replica : settings.group_of(replica);
  const std::byte* host = variable.data->data + static_cast<std::size_t>(entry) * variable.bytes;
  Engine& engine = *engines_[static_cast<std::size_t>(replica)];
  const std::size_t begin = std::min(
      variable.bytes, static_cast<std::size_t>(part_of(variable, replica)) * variable.part_bytes);
  const std::size_t bytes = std::min(variable.part_bytes, variable.bytes - begin);
  if (variable.remote_buffer >= 0) {
    return engine.store_remote(static_cast<std::size_t>(variable.remote_buffer), settings.slot,
                               host + begin, bytes, stop_check_of(replica));
  }
  std::byte* device = engine.persistent(variable.persistent);
  if (bytes > 0) std::memcpy(device, host + begin, bytes);
  if (bytes < variable.part_bytes) std::memset(device + bytes, 0, variable.part_bytes - bytes);
}

/// Every entry of the host array, each part from the first replica that keeps it.
void Session::download(const HostVariable& variable) const {
  const VariableSettings& settings = variable.settings;
  const std::int64_t entries = settings.host_entries(program_.replicas);
  for (std::int64_t entry = 0; entry < entries; ++entry) {
    const std::int64_t group = settings.entry_per_replica ? settings.group_of(entry) : entry;
    std::byte* host = variable.data->data + static_cast<std::size_t>(entry) * variable.bytes;
    std::int64_t missing = settings.shard_over;
    for (std::int64_t replica = 0; replica < program_.replicas && missing > 0; ++replica) {
      const bool own_entry = settings.entry_per_replica && settings.shard_over == 1;
      if (own_entry ? replica != entry : settings.group_of(replica) != group) continue;
      const std::size_t begin =
          std::min(variable.bytes,
                   static_cast<std::size_t>(part_of(variable, replica)) * variable.part_bytes);
      const std::size_t bytes = std::min(variable.part_bytes, variable.bytes - begin);
      if (bytes > 0) read_device(variable, replica, host + begin, bytes);
      --missing;  // the members of a group keep the parts in order
    }
  }
}

void Session::weights_from_host() {
  const CallGate::Pass pass(gate_, stop_check_);
  require_attached("weights_from_host");
  team_->run([&](int replica) {
    for (const HostVariable& variable : variables_) upload(variable, replica);
    Engine& engine = *engines_[static_cast<std::size_t>(replica)];
    engine.finish_remote(stop_check_of(replica));
    engine.run_weights_from_host();
  });
}

void Session::weights_to_host() {
  const CallGate::Pass pass(gate_, stop_check_);
  require_attached("weights_to_host");
  team_->run(
      [&](int replica) { engines_[static_cast<std::size_t>(replica)]->run_weights_to_host(); });
  for (const HostVariable& variable : variables_) download(variable);
}

}  // namespace pando
