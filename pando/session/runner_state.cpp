#include "pando/session/runner_state.hpp"

#include <algorithm>
#include <map>
#include <vector>

#include "pando/base/error.hpp"
#include "pando/runtime/engine.hpp"
#include "pando/session/runner.hpp"

namespace pando {
namespace {

void check_index(const char* what, std::int64_t index, std::int64_t size) {
  if (index >= 0 && index < size) return;
  throw ValueError(str_cat("wanted a ", what, " from 0 to ", size - 1, "; given ", index));
}

void check_bytes(const std::string& what, std::size_t wanted, std::size_t given) {
  if (wanted == given) return;
  throw ValueError(str_cat(what, " has ", wanted, " bytes; given ", given));
}

std::size_t checked_persistent(const Program& program, std::int64_t index, std::size_t bytes) {
  check_index("persistent tensor", index, static_cast<std::int64_t>(program.persistent.size()));
  const PersistentTensor& tensor = program.persistent[static_cast<std::size_t>(index)];
  check_bytes("'" + tensor.id + "'", value_bytes(tensor.dtype, tensor.shape), bytes);
  return static_cast<std::size_t>(index);
}

std::size_t checked_slot(const Program& program, std::int64_t buffer, std::int64_t slot,
                         std::size_t bytes) {
  check_index("remote buffer", buffer, static_cast<std::int64_t>(program.remote_buffers.size()));
  const RemoteBufferDesc& desc = program.remote_buffers[static_cast<std::size_t>(buffer)];
  check_index("slot", slot, desc.entries);
  check_bytes(str_cat("a slot of remote buffer ", desc.id), value_bytes(desc.dtype, desc.shape),
              bytes);
  return static_cast<std::size_t>(buffer);
}

std::map<std::int64_t, std::vector<std::byte>> values_of(const Executable& executable,
                                                         Engine& engine, const StopCheck& check) {
  std::map<std::int64_t, std::vector<std::byte>> values;
  for (const std::int64_t index : executable.state_tensors()) {
    const auto i = static_cast<std::size_t>(index);
    const PersistentTensor& tensor = executable.program().persistent[i];
    std::vector<std::byte>& value = values[index];
    value.resize(value_bytes(tensor.dtype, tensor.shape));
    engine.persistent().read(i, value.data(), value.size(), check);
  }
  return values;
}

}  // namespace

RunnerState Runner::state() { return RunnerState(*this); }

Engine& RunnerState::engine_of(std::int64_t replica, const char* what) const {
  runner_.require_attached(what);
  check_index("replica", replica, runner_.executable_->program().replicas);
  const std::vector<int>& local = runner_.local_replicas();
  const auto at = std::find(local.begin(), local.end(), replica);
  if (at != local.end()) return *runner_.engines_[static_cast<std::size_t>(at - local.begin())];
  throw ValueError(str_cat(what, " wants a replica that this process runs, which replica ", replica,
                           " is not: call it in the process that runs it"));
}

std::shared_ptr<StateSnapshot> RunnerState::snapshot(std::int64_t room_bytes,
                                                     bool rows_only) const {
  const CallGate::Pass pass(runner_.gate_, runner_.stop_check_);
  runner_.require_attached("snapshot");
  std::vector<StateSnapshot::Replica> replicas(runner_.engines_.size());
  const auto room = std::make_shared<SnapshotRoom>();
  room->limit = room_bytes;
  for (std::size_t local = 0; local < runner_.engines_.size(); ++local) {
    Engine& engine = *runner_.engines_[local];
    StateSnapshot::Replica& state = replicas[local];
    state.rank = runner_.replicas_.rank(local);
    if (!rows_only) state.persistent = values_of(*runner_.executable_, engine, runner_.stop_check_);
    state.remote = engine.remote().snapshot(room, runner_.stop_check_);
  }
  std::size_t row_bytes = 0;
  for (const RemoteBufferDesc& buffer : runner_.executable_->program().remote_buffers) {
    row_bytes = std::max(row_bytes, value_bytes(buffer.dtype, buffer.shape));
  }
  return std::make_shared<StateSnapshot>(std::move(replicas), row_bytes);
}

void RunnerState::read_persistent(std::int64_t replica, std::int64_t index, std::byte* to,
                                  std::size_t bytes) const {
  const CallGate::Pass pass(runner_.gate_, runner_.stop_check_);
  Engine& engine = engine_of(replica, "read_persistent");
  engine.persistent().read(checked_persistent(runner_.executable_->program(), index, bytes), to,
                           bytes, runner_.stop_check_);
}

void RunnerState::write_persistent(std::int64_t replica, std::int64_t index, const std::byte* from,
                                   std::size_t bytes) const {
  const CallGate::Pass pass(runner_.gate_, runner_.stop_check_);
  Engine& engine = engine_of(replica, "write_persistent");
  runner_.has_newer_values_ = true;
  engine.persistent().write(checked_persistent(runner_.executable_->program(), index, bytes), from,
                            bytes, runner_.stop_check_);
}

void RunnerState::write_remote(std::int64_t replica, std::int64_t buffer, std::int64_t slot,
                               const std::byte* from, std::size_t bytes) const {
  const CallGate::Pass pass(runner_.gate_, runner_.stop_check_);
  Engine& engine = engine_of(replica, "write_remote");
  engine.remote().store(checked_slot(runner_.executable_->program(), buffer, slot, bytes), slot,
                        from, bytes, runner_.stop_check_);
  engine.remote().finish(runner_.stop_check_);
}

void RunnerState::read_remote(std::int64_t replica, std::int64_t buffer, std::int64_t slot,
                              std::byte* to, std::size_t bytes) const {
  const CallGate::Pass pass(runner_.gate_, runner_.stop_check_);
  Engine& engine = engine_of(replica, "read_remote");
  engine.remote().load(checked_slot(runner_.executable_->program(), buffer, slot, bytes), slot, to,
                       bytes, runner_.stop_check_);
}

}  // namespace pando
