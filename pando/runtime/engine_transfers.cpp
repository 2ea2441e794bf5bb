// What an engine loads from and stores to the host and remote buffers.
#include <cstdint>
#include <cstring>

#include "pando/base/error.hpp"
#include "pando/runtime/engine.hpp"

namespace pando {
namespace {

/// What malloc, and so NumPy, aligns arrays to. Of less aligned ones, elements may not even be
/// aligned to their own size, as kernels want: those are copied.
constexpr std::uintptr_t kHostAlignment = 16;

}  // namespace

void Engine::place_row(std::int32_t slot, std::byte* place) {
  LoadedRow& row = rows_[static_cast<std::size_t>(slot)];
  row.place = place;
  for (const LoadedRow::Use& use : row.uses) {
    functions_[use.function].pointers[use.pointer] = place + use.offset;
  }
}

std::byte* Engine::next_element(const PreparedInstruction& p) {
  const auto stream = static_cast<std::size_t>(p.instruction->target);
  const StreamCursor& cursor = streams_[stream];
  const std::int64_t element = positions_[stream]++ % cursor.count;
  return cursor.data + static_cast<std::size_t>(element * cursor.stride) * p.stream_bytes;
}

void Engine::move_host(const PreparedInstruction& p, std::byte* memory, int device) {
  const bool is_load = p.instruction->kind == Instruction::Kind::HostLoad;
  std::byte* const element = next_element(p);
  const bool in_place = p.instruction->row >= 0 && may_read_host_in_place_ &&
                        reinterpret_cast<std::uintptr_t>(element) % kHostAlignment == 0;
  if (!in_place) {
    backend_.copy(is_load ? element : memory, is_load ? memory : element, p.stream_bytes);
  }
  if (p.instruction->row >= 0) place_row(p.instruction->row, in_place ? element : memory);
  if (profile_ != nullptr) profile_->count_host(device, is_load, p.stream_bytes);
}

std::int64_t Engine::remote_slot(const Instruction& transfer, const std::byte* offset) const {
  const auto index = static_cast<std::size_t>(transfer.target);
  const RemoteBufferDesc& buffer = program_.remote_buffers[index];
  std::uint32_t slot = 0;
  std::memcpy(&slot, offset, sizeof slot);
  if (slot >= buffer.entries) {
    const bool is_unsigned = transfer.count == 1;
    const auto asked =
        is_unsigned ? std::int64_t{slot} : std::int64_t{static_cast<std::int32_t>(slot)};
    throw RuntimeFault(str_cat("remote buffer ", buffer.id, " has ", buffer.entries,
                               " entries; the program asked for entry ", asked));
  }
  return slot;
}

RemoteMemory& Engine::remote_of(const Instruction& transfer) const {
  return *remote_[static_cast<std::size_t>(transfer.target)];
}

void Engine::timed_transfer(const PreparedInstruction& p, std::byte* const* operands, int device) {
  if (profile_ == nullptr) return transfer(p, operands, device);
  const double start = steady_seconds();
  transfer(p, operands, device);
  const double end = steady_seconds();
  profile_->waited(device, end - start);
  if (p.instruction->kind == Instruction::Kind::RemoteLoadWait) return;
  const bool is_load = p.instruction->kind != Instruction::Kind::RemoteStore;
  const TransferTag tag = tag_of(*p.instruction, device);
  profile_->count_transfer(tag, is_load, p.stream_bytes);
  // Slow memory's queue tells how long transfers took.
  if (!remote_of(*p.instruction).is_slow()) {
    profile_->transferred(tag, -1, is_load, 0, start, end);
  }
}

TransferTag Engine::tag_of(const Instruction& transfer, int device) const {
  if (profile_ == nullptr) return {};
  const auto index = static_cast<std::size_t>(transfer.target);
  return profile_->tag(device, program_.remote_buffers[index].id);
}

void Engine::transfer(const PreparedInstruction& p, std::byte* const* operands, int device) {
  using Kind = Instruction::Kind;
  const Instruction& instruction = *p.instruction;
  RemoteMemory& memory = remote_of(instruction);
  if (instruction.kind == Kind::RemoteLoadWait) {
    if (!memory.is_slow()) return;
    return io_->wait(tickets_[static_cast<std::size_t>(instruction.other_target)],
                     check_of(device));
  }
  const std::int64_t slot = remote_slot(instruction, operands[0]);
  if (std::byte* row = memory.row_in_memory(slot)) {
    if (instruction.kind == Kind::RemoteStore) {
      return store_in_memory(p, operands[1], row, slot, device);
    }
    if (instruction.row < 0) return backend_.copy(row, operands[1], p.stream_bytes);
    if (instruction.writes_row) memory.before_store(slot, check_of(device));
    return place_row(instruction.row, row);
  }
  if (instruction.row >= 0) place_row(instruction.row, operands[1]);
  if (instruction.kind == Kind::RemoteStore) {
    return io_->store(memory, slot, operands[1], p.stream_bytes, tag_of(instruction, device),
                      check_of(device));
  }
  const IoQueue::Ticket ticket =
      io_->start_load(memory, slot, operands[1], p.stream_bytes, tag_of(instruction, device));
  if (instruction.kind == Kind::RemoteLoad) return io_->wait(ticket, check_of(device));
  tickets_[static_cast<std::size_t>(instruction.other_target)] = ticket;
}

void Engine::store_in_memory(const PreparedInstruction& p, const std::byte* from, std::byte* row,
                             std::int64_t slot, int device) {
  if (from == row) return;  // was written in place
  RemoteMemory& memory = remote_of(*p.instruction);
  memory.before_store(slot, check_of(device));
  backend_.copy(from, row, p.stream_bytes);
  std::memset(row + p.stream_bytes, 0, memory.slot_bytes() - p.stream_bytes);
}

void Engine::load_remote(std::size_t buffer, std::int64_t slot, std::byte* to, std::size_t bytes,
                         const StopCheck& check) {
  RemoteMemory& memory = *remote_[buffer];
  if (!memory.is_slow()) return memory.load(slot, to, bytes);
  try {
    io_->wait(io_->start_load(memory, slot, to, bytes), check);
  } catch (...) {
    // The load may still be under way to memory of the caller's.
    io_->abandon();
    throw;
  }
}

void Engine::store_remote(std::size_t buffer, std::int64_t slot, const std::byte* from,
                          std::size_t bytes, const StopCheck& check) {
  RemoteMemory& memory = *remote_[buffer];
  if (!memory.is_slow()) return memory.store(slot, from, bytes, check);
  io_->store(memory, slot, from, bytes, {}, check);
}

void Engine::finish_remote(const StopCheck& check) {
  if (io_ != nullptr) io_->finish(check);
}

std::vector<std::shared_ptr<RowSnapshot>> Engine::snapshot_remote(
    const std::shared_ptr<SnapshotRoom>& room, const StopCheck& check) {
  // Stores may wait for the reader of the one before.
  for (const auto& memory : remote_) memory->cancel_snapshot();
  if (io_ != nullptr) io_->retry();
  finish_remote(check);
  std::vector<std::shared_ptr<RowSnapshot>> snapshots;
  snapshots.reserve(remote_.size());
  for (const auto& memory : remote_) snapshots.push_back(memory->snapshot(room));
  return snapshots;
}

}  // namespace pando
