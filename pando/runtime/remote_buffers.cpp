#include "pando/runtime/remote_buffers.hpp"

#include <algorithm>

namespace pando {

bool RemoteTier::is_slow() const {
  return std::any_of(memories.begin(), memories.end(),
                     [](const auto& memory) { return memory->is_slow(); });
}

RemoteBuffers::RemoteBuffers(RemoteTier tier, RunProfile* profile) {
  if (tier.is_slow()) {
    io_ = std::make_unique<IoQueue>(tier.io_threads, tier.staging_bytes, profile);
  }
  memories_ = std::move(tier.memories);
}

void RemoteBuffers::load(std::size_t buffer, std::int64_t slot, std::byte* to, std::size_t bytes,
                         const StopCheck& check) {
  RemoteMemory& memory = *memories_[buffer];
  if (!memory.is_slow()) return memory.load(slot, to, bytes);
  try {
    io_->wait(io_->start_load(memory, slot, to, bytes), check);
  } catch (...) {
    // The load may still be under way to memory of the caller's.
    io_->abandon();
    throw;
  }
}

void RemoteBuffers::store(std::size_t buffer, std::int64_t slot, const std::byte* from,
                          std::size_t bytes, const StopCheck& check) {
  RemoteMemory& memory = *memories_[buffer];
  if (!memory.is_slow()) return memory.store(slot, from, bytes, check);
  io_->store(memory, slot, from, bytes, {}, check);
}

std::vector<std::shared_ptr<RowSnapshot>> RemoteBuffers::snapshot(
    const std::shared_ptr<SnapshotRoom>& room, const StopCheck& check) {
  // Stores may wait for the reader of the one before.
  for (const auto& memory : memories_) memory->cancel_snapshot();
  retry();
  finish(check);
  std::vector<std::shared_ptr<RowSnapshot>> snapshots;
  snapshots.reserve(memories_.size());
  for (const auto& memory : memories_) snapshots.push_back(memory->snapshot(room));
  return snapshots;
}

void RemoteBuffers::retry() {
  if (io_ != nullptr) io_->retry();
}

void RemoteBuffers::finish(const StopCheck& check) {
  if (io_ != nullptr) io_->finish(check);
}

void RemoteBuffers::abandon() {
  if (io_ != nullptr) io_->abandon();
}

}  // namespace pando
