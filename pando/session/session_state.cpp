// The raw state of a replica: what a checkpoint keeps.
#include <algorithm>

#include "pando/base/error.hpp"
#include "pando/base/hash.hpp"
#include "pando/program/serialise.hpp"
#include "pando/runtime/engine.hpp"
#include "pando/session/session.hpp"

namespace pando {
namespace {

std::size_t value_bytes(DType dtype, const Shape& shape) {
  return static_cast<std::size_t>(num_elements(shape)) * dtype_bytes(dtype);
}

void check_index(const char* what, std::int64_t index, std::int64_t size) {
  if (index >= 0 && index < size) return;
  throw ValueError(str_cat("wanted a ", what, " from 0 to ", size - 1, "; given ", index));
}

void check_bytes(const std::string& what, std::size_t wanted, std::size_t given) {
  if (wanted == given) return;
  throw ValueError(str_cat(what, " has ", wanted, " bytes; given ", given));
}

}  // namespace

Engine& Session::engine_of(std::int64_t replica, const char* what) const {
  require_attached(what);
  check_index("replica", replica, program_.replicas);
  const std::vector<int>& local = local_replicas();
  const auto at = std::find(local.begin(), local.end(), replica);
  if (at != local.end()) return *engines_[static_cast<std::size_t>(at - local.begin())];
  throw ValueError(str_cat(what, " wants a replica that this process runs, which replica ", replica,
                           " is not: call it in the process that runs it"));
}

std::size_t Session::checked_persistent(std::int64_t index, std::size_t bytes) const {
  check_index("persistent tensor", index, static_cast<std::int64_t>(program_.persistent.size()));
  const PersistentTensor& tensor = program_.persistent[static_cast<std::size_t>(index)];
  check_bytes("'" + tensor.id + "'", value_bytes(tensor.dtype, tensor.shape), bytes);
  return static_cast<std::size_t>(index);
}

std::size_t Session::checked_slot(std::int64_t buffer, std::int64_t slot, std::size_t bytes) const {
  check_index("remote buffer", buffer, static_cast<std::int64_t>(program_.remote_buffers.size()));
  const RemoteBufferDesc& desc = program_.remote_buffers[static_cast<std::size_t>(buffer)];
  check_index("slot", slot, desc.entries);
  check_bytes(str_cat("a slot of remote buffer ", desc.id), value_bytes(desc.dtype, desc.shape),
              bytes);
  return static_cast<std::size_t>(buffer);
}

std::uint64_t Session::fingerprint() const {
  Program program = program_;
  program.sources = {};
  const TextTable::Index nothing = program.sources.add_text("");
  for (std::size_t i = 0; i < program_.sources.size(); ++i) {
    const TextTable::Index op = program.sources.add_text(program_.sources[i].op);
    program.sources.add({op, nothing, nothing});
  }
  program.memory = {};
  return hash64(serialise_program(program));
}

std::vector<std::int64_t> Session::state_tensors() const {
  std::vector<std::int64_t> indices;
  for (std::size_t i = 0; i < program_.persistent.size(); ++i) {
    const bool is_constant =
        std::any_of(constants_.begin(), constants_.end(),
                    [&](const auto& constant) { return constant.persistent == i; });
    if (!is_constant) indices.push_back(static_cast<std::int64_t>(i));
  }
  return indices;
}

std::shared_ptr<StateSnapshot> Session::snapshot(std::int64_t room_bytes) const {
  const CallGate::Pass pass(gate_, stop_check_);
  require_attached("snapshot");
  std::vector<StateSnapshot::Replica> replicas(engines_.size());
  const auto room = std::make_shared<SnapshotRoom>();
  room->limit = room_bytes;
  for (std::size_t local = 0; local < engines_.size(); ++local) {
    Engine& engine = *engines_[local];
    StateSnapshot::Replica& state = replicas[local];
    state.rank = replica_of(local);
    for (const std::int64_t index : state_tensors()) {
      const auto i = static_cast<std::size_t>(index);
      const PersistentTensor& tensor = program_.persistent[i];
      std::vector<std::byte>& value = state.persistent[index];
      value.resize(value_bytes(tensor.dtype, tensor.shape));
      engine.read_persistent(i, value.data(), value.size(), stop_check_);
    }
    state.remote = engine.snapshot_remote(room, stop_check_);
  }
  std::size_t row_bytes = 0;
  for (const RemoteBufferDesc& buffer : program_.remote_buffers) {
    row_bytes = std::max(row_bytes, value_bytes(buffer.dtype, buffer.shape));
  }
  return std::make_shared<StateSnapshot>(std::move(replicas), row_bytes);
}

void Session::write_persistent(std::int64_t replica, std::int64_t index, const std::byte* from,
                               std::size_t bytes) {
  const CallGate::Pass pass(gate_, stop_check_);
  Engine& engine = engine_of(replica, "write_persistent");
  engine.write_persistent(checked_persistent(index, bytes), from, bytes, stop_check_);
}

void Session::write_remote(std::int64_t replica, std::int64_t buffer, std::int64_t slot,
                           const std::byte* from, std::size_t bytes) {
  const CallGate::Pass pass(gate_, stop_check_);
  Engine& engine = engine_of(replica, "write_remote");
  engine.store_remote(checked_slot(buffer, slot, bytes), slot, from, bytes, stop_check_);
  engine.finish_remote(stop_check_);
}

void Session::read_remote(std::int64_t replica, std::int64_t buffer, std::int64_t slot,
                          std::byte* to, std::size_t bytes) const {
  const CallGate::Pass pass(gate_, stop_check_);
  Engine& engine = engine_of(replica, "read_remote");
  engine.load_remote(checked_slot(buffer, slot, bytes), slot, to, bytes, stop_check_);
}

StateSnapshot::StateSnapshot(std::vector<Replica> replicas, std::size_t row_bytes)
    : replicas_(std::move(replicas)), row_bytes_(row_bytes) {}

StateSnapshot::~StateSnapshot() { cancel(); }

const std::vector<std::byte>& StateSnapshot::persistent(std::int64_t replica,
                                                        std::int64_t index) const {
  const auto state = std::find_if(replicas_.begin(), replicas_.end(),
                                  [&](const Replica& of) { return of.rank == replica; });
  if (state == replicas_.end()) {
    throw ValueError(str_cat("the snapshot has no state of replica ", replica));
  }
  const auto it = state->persistent.find(index);
  if (it == state->persistent.end()) throw ValueError(str_cat("there is no state tensor ", index));
  return it->second;
}

std::optional<StateSnapshot::Row> StateSnapshot::next_row(std::byte* to, std::size_t bytes) const {
  if (bytes < row_bytes_) {
    throw ValueError(str_cat("the largest row has ", row_bytes_, " bytes; given ", bytes));
  }
  const auto first = [&](auto condition) -> std::optional<Row> {
    for (const Replica& state : replicas_) {
      for (std::size_t buffer = 0; buffer < state.remote.size(); ++buffer) {
        RowSnapshot& rows = *state.remote[buffer];
        if (!condition(rows)) continue;
        const std::int64_t slot = rows.next(to);
        if (slot < 0) continue;
        return Row{state.rank, static_cast<std::int64_t>(buffer), slot};
      }
    }
    return std::nullopt;
  };
  // What the program waits for, then what takes memory.
  std::optional<Row> row = first([](const RowSnapshot& rows) { return rows.is_wanted(); });
  if (!row) row = first([](const RowSnapshot& rows) { return rows.has_copies(); });
  return row ? row : first([](const RowSnapshot&) { return true; });
}

void StateSnapshot::cancel() const {
  for (const Replica& state : replicas_) {
    for (const auto& rows : state.remote) rows->cancel();
  }
}

}  // namespace pando
