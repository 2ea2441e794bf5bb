// Variables between their host arrays and the replicas.
#include <algorithm>

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

struct ByteRange {
  std::size_t begin = 0, bytes = 0;
};

/// Of what a replica keeps of an entry of `bytes` in all; the last part may be short.
ByteRange bytes_of_part(const VariableSettings& settings, std::int64_t replica, std::size_t bytes,
                        std::size_t part_bytes) {
  const std::int64_t part = index_in_group(settings, replica) % settings.shard_over;
  const std::size_t begin = std::min(bytes, static_cast<std::size_t>(part) * part_bytes);
  return {begin, std::min(part_bytes, bytes - begin)};
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

void Session::upload_constants(Engine& engine, const StopCheck& check) const {
  for (const ProgramConstant& constant : constants_) {
    engine.write_persistent(constant.persistent, constant.data->data, constant.data->bytes, check);
  }
}

void Session::read_device(const HostVariable& variable, std::size_t local, std::byte* to,
                          std::size_t bytes, const StopCheck& check) const {
  Engine& engine = *engines_[local];
  if (variable.remote_buffer < 0) {
    engine.read_persistent(variable.persistent, to, bytes, check);
  } else {
    engine.load_remote(static_cast<std::size_t>(variable.remote_buffer), variable.settings.slot, to,
                       bytes, check);
  }
}

StopCheck Session::stop_check_of(std::size_t local) const {
  return stop_check(team_->should_stop(static_cast<int>(local)));
}

std::byte* Session::host_entry(const HostVariable& variable, std::int64_t replica) const {
  const VariableSettings& settings = variable.settings;
  const std::int64_t entry = settings.entry_per_replica ? replica : settings.group_of(replica);
  return variable.data->data + static_cast<std::size_t>(entry) * variable.bytes;
}

void Session::upload(const HostVariable& variable, std::size_t local) const {
  const VariableSettings& settings = variable.settings;
  const std::int64_t replica = replica_of(local);
  const std::byte* host = host_entry(variable, replica);
  Engine& engine = *engines_[local];
  const auto [begin, bytes] = bytes_of_part(settings, replica, variable.bytes, variable.part_bytes);
  if (variable.remote_buffer >= 0) {
    return engine.store_remote(static_cast<std::size_t>(variable.remote_buffer), settings.slot,
                               host + begin, bytes, stop_check_of(local));
  }
  engine.write_persistent(variable.persistent, host + begin, bytes, stop_check_of(local));
}

bool Session::has_parts_elsewhere(const HostVariable& variable) const {
  return variable.settings.shard_over > 1 &&
         num_local() < static_cast<std::size_t>(program_.replicas);
}

/// Every entry that a local replica keeps, each part from the first one that keeps it.
void Session::download(const HostVariable& variable) const {
  const VariableSettings& settings = variable.settings;
  const std::int64_t entries = settings.host_entries(program_.replicas);
  for (std::int64_t entry = 0; entry < entries; ++entry) {
    const std::int64_t group = settings.entry_per_replica ? settings.group_of(entry) : entry;
    std::byte* host = variable.data->data + static_cast<std::size_t>(entry) * variable.bytes;
    std::int64_t missing = settings.shard_over;
    for (std::size_t local = 0; local < num_local() && missing > 0; ++local) {
      const std::int64_t replica = replica_of(local);
      const bool own_entry = settings.entry_per_replica && settings.shard_over == 1;
      if (own_entry ? replica != entry : settings.group_of(replica) != group) continue;
      const auto [begin, bytes] =
          bytes_of_part(settings, replica, variable.bytes, variable.part_bytes);
      if (bytes > 0) read_device(variable, local, host + begin, bytes, stop_check_);
      --missing;  // the members of a group keep the parts in order
    }
  }
}

void Session::download_parts(const HostVariable& variable, std::size_t local) const {
  const std::int64_t replica = replica_of(local);
  const auto group = team_->communicator(static_cast<int>(local))
                         .split(variable.settings.group_of(replica), replica);
  std::vector<std::byte> part(variable.part_bytes);
  read_device(variable, local, part.data(), part.size(), stop_check_of(local));
  std::byte* const host = host_entry(variable, replica);
  bool is_first = true;
  for (std::size_t other = 0; other < local; ++other) {
    is_first = is_first && host_entry(variable, replica_of(other)) != host;
  }
  std::vector<std::byte> unused(is_first ? 0 : variable.bytes);
  // The first members of the group keep the parts in order; what others have is cut off.
  const Collective gather{.kind = Collective::Kind::AllGather,
                          .dtype = DType::UInt8,
                          .input_elements = static_cast<std::int64_t>(variable.part_bytes),
                          .output_elements = static_cast<std::int64_t>(variable.bytes),
                          .name = "weights_to_host of a variable in parts"};
  group->run(gather, part.data(), is_first ? host : unused.data());
}

void Session::weights_from_host() {
  const CallGate::Pass pass(gate_, stop_check_);
  require_attached("weights_from_host");
  team_->run([&](int index) {
    const auto local = static_cast<std::size_t>(index);
    for (const HostVariable& variable : variables_) upload(variable, local);
    engines_[local]->finish_remote(stop_check_of(local));
    engines_[local]->run_weights_from_host();
  });
}

void Session::weights_to_host() {
  const CallGate::Pass pass(gate_, stop_check_);
  require_attached("weights_to_host");
  team_->run([&](int index) {
    const auto local = static_cast<std::size_t>(index);
    engines_[local]->run_weights_to_host();
    for (const HostVariable& variable : variables_) {
      if (has_parts_elsewhere(variable)) download_parts(variable, local);
    }
  });
  for (const HostVariable& variable : variables_) {
    if (!has_parts_elsewhere(variable)) download(variable);
  }
}

}  // namespace pando
