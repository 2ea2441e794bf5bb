#include "pando/session/variable_transfers.hpp"

#include <algorithm>
#include <numeric>

#include "pando/base/error.hpp"
#include "pando/base/nearest_names.hpp"
#include "pando/runtime/communicator.hpp"
#include "pando/runtime/engine.hpp"

namespace pando {
namespace {

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

/// What a replica keeps of an entry; the last part may be short.
ByteRange bytes_of_part(const VariableLayout& variable, std::int64_t replica) {
  const std::int64_t part =
      index_in_group(variable.settings, replica) % variable.settings.shard_over;
  const std::size_t begin =
      std::min(variable.bytes, static_cast<std::size_t>(part) * variable.part_bytes);
  return {begin, std::min(variable.part_bytes, variable.bytes - begin)};
}

/// The first `bytes` of what a replica keeps.
void read_device(const VariableLayout& variable, Engine& engine, std::byte* to, std::size_t bytes,
                 const StopCheck& check) {
  if (variable.remote_buffer < 0) {
    engine.persistent().read(variable.persistent, to, bytes, check);
  } else {
    engine.remote().load(static_cast<std::size_t>(variable.remote_buffer), variable.settings.slot,
                         to, bytes, check);
  }
}

void check_array(const VariableLayout& variable, const HostArray& array, std::int64_t replicas) {
  const auto entries = static_cast<std::size_t>(variable.settings.host_entries(replicas));
  const std::size_t groups = variable.settings.groups.size();
  const bool fits = groups == 0 || groups == static_cast<std::size_t>(replicas);
  if (fits && array.bytes == entries * variable.bytes) return;
  throw ValueError(str_cat("the variable '", variable.id,
                           "' was made for another number of replicas than the ", replicas,
                           " of the program: wanted ", entries * variable.bytes,
                           " bytes of host data; given ", array.bytes));
}

}  // namespace

HostArrays host_arrays_of(const Executable& executable, const Ir& ir) {
  HostArrays arrays;
  arrays.reserve(executable.variables().size());
  for (const VariableLayout& variable : executable.variables()) {
    const Tensor* source = ir.main_graph().find_tensor(variable.id);
    internal_check(source != nullptr, "a variable of the program must come from the Ir");
    arrays.push_back(source->data);
  }
  return arrays;
}

VariableTransfers::VariableTransfers(const Executable& executable, HostArrays arrays,
                                     std::vector<int> ranks)
    : layouts_(executable.variables()),
      replicas_(executable.program().replicas),
      arrays_(std::move(arrays)),
      ranks_(std::move(ranks)) {
  if (arrays_.size() != layouts_.size()) {
    throw ValueError(str_cat("wanted a host array for each of ", layouts_.size(),
                             " variables; given ", arrays_.size()));
  }
  for (std::size_t i = 0; i < layouts_.size(); ++i) {
    check_array(layouts_[i], *arrays_[i], replicas_);
  }
}

std::byte* VariableTransfers::host_entry(std::size_t variable, std::int64_t replica) const {
  const VariableSettings& settings = layouts_[variable].settings;
  const std::int64_t entry = settings.entry_per_replica ? replica : settings.group_of(replica);
  return arrays_[variable]->data + static_cast<std::size_t>(entry) * layouts_[variable].bytes;
}

VariableTransfers::Selection VariableTransfers::all() const {
  Selection variables(layouts_.size());
  std::iota(variables.begin(), variables.end(), std::size_t{0});
  return variables;
}

VariableTransfers::Selection VariableTransfers::with_ids(
    const std::vector<std::string>& ids) const {
  Selection variables;
  for (const std::string& id : ids) {
    const auto known = std::find_if(layouts_.begin(), layouts_.end(),
                                    [&](const VariableLayout& v) { return v.id == id; });
    if (known == layouts_.end()) {
      std::vector<std::string> names;
      names.reserve(layouts_.size());
      for (const VariableLayout& variable : layouts_) names.emplace_back(variable.id);
      throw ValueError(
          str_cat("the program has no variable '", id, "': ", nearest_names(id, names)));
    }
    variables.push_back(static_cast<std::size_t>(known - layouts_.begin()));
  }
  return variables;
}

void VariableTransfers::upload(const Selection& variables, std::size_t local, Engine& engine,
                               const StopCheck& check) const {
  const std::int64_t replica = ranks_[local];
  for (const std::size_t i : variables) {
    const VariableLayout& variable = layouts_[i];
    const auto [begin, bytes] = bytes_of_part(variable, replica);
    const std::byte* part = host_entry(i, replica) + begin;
    if (variable.remote_buffer >= 0) {
      engine.remote().store(static_cast<std::size_t>(variable.remote_buffer),
                            variable.settings.slot, part, bytes, check);
    } else {
      engine.persistent().write(variable.persistent, part, bytes, check);
    }
  }
}

bool VariableTransfers::has_parts_elsewhere(const VariableLayout& variable) const {
  return variable.settings.shard_over > 1 && ranks_.size() < static_cast<std::size_t>(replicas_);
}

void VariableTransfers::download(const Selection& variables,
                                 const std::vector<std::unique_ptr<Engine>>& engines, bool last,
                                 const StopCheck& check) const {
  for (const std::size_t i : variables) {
    if (has_parts_elsewhere(layouts_[i])) continue;
    download(i, engines, check);
    if (!last || layouts_[i].remote_buffer >= 0) continue;
    for (const auto& engine : engines) engine->persistent().discard(layouts_[i].persistent);
  }
}

/// Each part comes from the first local replica that keeps it.
void VariableTransfers::download(std::size_t index,
                                 const std::vector<std::unique_ptr<Engine>>& engines,
                                 const StopCheck& check) const {
  const VariableLayout& variable = layouts_[index];
  const VariableSettings& settings = variable.settings;
  const std::int64_t entries = settings.host_entries(replicas_);
  for (std::int64_t entry = 0; entry < entries; ++entry) {
    const std::int64_t group = settings.entry_per_replica ? settings.group_of(entry) : entry;
    std::byte* host = arrays_[index]->data + static_cast<std::size_t>(entry) * variable.bytes;
    std::int64_t missing = settings.shard_over;
    for (std::size_t local = 0; local < ranks_.size() && missing > 0; ++local) {
      const std::int64_t replica = ranks_[local];
      const bool own_entry = settings.entry_per_replica && settings.shard_over == 1;
      if (own_entry ? replica != entry : settings.group_of(replica) != group) continue;
      const auto [begin, bytes] = bytes_of_part(variable, replica);
      if (bytes > 0) read_device(variable, *engines[local], host + begin, bytes, check);
      --missing;  // the members of a group keep the parts in order
    }
  }
}

void VariableTransfers::download_parts(const Selection& variables, std::size_t local,
                                       Engine& engine, Communicator& communicator,
                                       const StopCheck& check) const {
  for (const std::size_t i : variables) {
    if (has_parts_elsewhere(layouts_[i])) download_parts(i, local, engine, communicator, check);
  }
}

void VariableTransfers::download_parts(std::size_t index, std::size_t local, Engine& engine,
                                       Communicator& communicator, const StopCheck& check) const {
  const VariableLayout& variable = layouts_[index];
  const std::int64_t replica = ranks_[local];
  const auto group = communicator.split(variable.settings.group_of(replica), replica);
  std::vector<std::byte> part(variable.part_bytes);
  read_device(variable, engine, part.data(), part.size(), check);
  std::byte* const host = host_entry(index, replica);
  bool is_first = true;
  for (std::size_t other = 0; other < local; ++other) {
    is_first = is_first && host_entry(index, ranks_[other]) != host;
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

}  // namespace pando
