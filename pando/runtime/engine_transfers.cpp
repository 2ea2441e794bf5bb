// What an engine moves between its device, the host, remote buffers and other replicas.
#include <cstdint>
#include <cstring>

#include "pando/base/error.hpp"
#include "pando/runtime/engine.hpp"
#include "pando/runtime/print_tensor.hpp"

namespace pando {
namespace {

/// What malloc, and so NumPy, aligns arrays to. Of less aligned ones, elements may not even be
/// aligned to their own size, as kernels want: those are copied.
constexpr std::uintptr_t kHostAlignment = 16;

}  // namespace

void Engine::move_now(const std::function<void(Queue&)>& ask, const StopCheck& check) const {
  Queue& queue = queue_of(0);
  try {
    ask(queue);
    queue.wait(queue.record(), check);
  } catch (...) {
    queue.abandon();
    throw;
  }
}

void Engine::read_persistent(std::size_t index, std::byte* to, std::size_t bytes,
                             const StopCheck& check) const {
  const std::byte* from = persistent_ + program_.persistent[index].offset;
  const auto ask = [&](Queue& queue) {
    if (bytes > 0) queue.copy(from, to, bytes, CopyKind::DeviceToHost);
  };
  move_now(ask, check);
}

void Engine::write_persistent(std::size_t index, const std::byte* from, std::size_t bytes,
                              const StopCheck& check) {
  const PersistentTensor& tensor = program_.persistent[index];
  const auto all = static_cast<std::size_t>(num_elements(tensor.shape)) * dtype_bytes(tensor.dtype);
  std::byte* to = persistent_ + tensor.offset;
  const auto ask = [&](Queue& queue) {
    if (bytes > 0) queue.copy(from, to, bytes, CopyKind::HostToDevice);
    if (bytes < all) queue.fill_with_zeros(to + bytes, all - bytes);
  };
  move_now(ask, check);
}

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
  if (is_load && !in_place) {
    queue_of(device).copy(element, memory, p.stream_bytes, CopyKind::HostToDevice);
  } else if (!is_load) {
    queue_of(device).copy(memory, element, p.stream_bytes, CopyKind::DeviceToHost);
  }
  if (p.instruction->row >= 0) place_row(p.instruction->row, in_place ? element : memory);
  if (profile_ != nullptr) profile_->count_host(device, is_load, p.stream_bytes);
}

std::int64_t Engine::remote_slot(const Instruction& transfer, std::uint32_t slot) const {
  const auto index = static_cast<std::size_t>(transfer.target);
  const RemoteBufferDesc& buffer = program_.remote_buffers[index];
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
    if (memory.is_slow()) finish_load(p, operands[0], device);
    return;
  }
  const std::int64_t slot =
      remote_slot(instruction, queue_of(device).read<std::uint32_t>(operands[0], check_of(device)));
  std::byte* row = memory.row_in_memory(slot);
  const bool is_store = instruction.kind == Kind::RemoteStore;
  if (row == nullptr) {
    if (is_store) return store_slow(p, operands[1], slot, device);
    return load_slow(p, operands[1], slot, device);
  }
  if (is_store) return store_in_memory(p, operands[1], row, slot, device);
  load_in_memory(p, row, operands[1], slot, device);
}

void Engine::load_in_memory(const PreparedInstruction& p, std::byte* row, std::byte* to,
                            std::int64_t slot, int device) {
  const Instruction& load = *p.instruction;
  if (load.row >= 0 && kernels_use_host_memory_) {
    if (load.writes_row) remote_of(load).before_store(slot, check_of(device));
    return place_row(load.row, row);
  }
  queue_of(device).copy(row, to, p.stream_bytes, CopyKind::HostToDevice);
  if (load.row >= 0) place_row(load.row, to);
}

void Engine::store_in_memory(const PreparedInstruction& p, const std::byte* from, std::byte* row,
                             std::int64_t slot, int device) {
  if (from == row) return;  // was written in place
  RemoteMemory& memory = remote_of(*p.instruction);
  memory.before_store(slot, check_of(device));
  queue_of(device).copy(from, row, p.stream_bytes, CopyKind::DeviceToHost);
  std::memset(row + p.stream_bytes, 0, memory.slot_bytes() - p.stream_bytes);
}

void Engine::load_slow(const PreparedInstruction& p, std::byte* to, std::int64_t slot, int device) {
  const Instruction& load = *p.instruction;
  const bool is_started = load.kind == Instruction::Kind::RemoteLoadStart;
  const auto transfer = static_cast<std::size_t>(load.other_target);
  if (load.row >= 0) place_row(load.row, to);
  const bool is_direct = queue_of(device).is_direct();
  HostStaging& staging =
      is_started ? loads_[transfer] : from_host_[static_cast<std::size_t>(device)];
  std::byte* place = is_direct ? to : staging.room(p.stream_bytes, check_of(device));
  const IoQueue::Ticket ticket =
      io_->start_load(remote_of(load), slot, place, p.stream_bytes, tag_of(load, device));
  if (is_started) {
    tickets_[transfer] = ticket;
    return;
  }
  io_->wait(ticket, check_of(device));
  if (!is_direct) staging.copy_to(queue_of(device), to, p.stream_bytes);
}

void Engine::finish_load(const PreparedInstruction& p, std::byte* to, int device) {
  const auto transfer = static_cast<std::size_t>(p.instruction->other_target);
  io_->wait(tickets_[transfer], check_of(device));
  Queue& queue = queue_of(device);
  if (!queue.is_direct()) loads_[transfer].copy_to(queue, to, p.stream_bytes);
}

void Engine::store_slow(const PreparedInstruction& p, const std::byte* from, std::int64_t slot,
                        int device) {
  const Instruction& store = *p.instruction;
  Queue& queue = queue_of(device);
  HostStaging& staging = to_host_[static_cast<std::size_t>(device)];
  const std::byte* value =
      queue.is_direct() ? from : staging.read(queue, from, p.stream_bytes, check_of(device));
  io_->store(remote_of(store), slot, value, p.stream_bytes, tag_of(store, device),
             check_of(device));
}

void Engine::exchange(const Instruction& collective, std::byte* const* operands, int device) {
  const auto index = static_cast<std::size_t>(collective.target);
  if (profile_ == nullptr) return run_collective(index, operands, device);
  const double start = steady_seconds();
  run_collective(index, operands, device);
  profile_->exchanged(device, steady_seconds() - start);
}

void Engine::run_collective(std::size_t collective, std::byte* const* operands, int device) {
  Queue& queue = queue_of(device);
  if (queue.is_direct()) return collectives_->run(collective, operands[0], operands[1]);
  // Replicas meet in the host's memory.
  const CollectiveDesc& desc = program_.collectives[collective];
  const auto index = static_cast<std::size_t>(device);
  const std::size_t element = dtype_bytes(desc.dtype);
  const std::size_t output_bytes = static_cast<std::size_t>(desc.output_elements) * element;
  const std::byte* input = to_host_[index].read(
      queue, operands[0], static_cast<std::size_t>(desc.input_elements) * element,
      check_of(device));
  std::byte* output = from_host_[index].room(output_bytes, check_of(device));
  collectives_->run(collective, input, output);
  from_host_[index].copy_to(queue, operands[1], output_bytes);
}

void Engine::print(PrintDesc print, const std::byte* value, int device) {
  if (program_.replicas > 1) print.title += str_cat("_replica_", communicator_->rank());
  Queue& queue = queue_of(device);
  if (queue.is_direct()) return print_tensor(print, value);
  const std::size_t bytes =
      static_cast<std::size_t>(num_elements(print.shape)) * dtype_bytes(print.dtype);
  HostStaging& staging = to_host_[static_cast<std::size_t>(device)];
  print_tensor(print, staging.read(queue, value, bytes, check_of(device)));
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
