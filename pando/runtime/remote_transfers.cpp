#include "pando/runtime/remote_transfers.hpp"

#include "pando/base/error.hpp"

namespace pando {

RemoteTransfers::RemoteTransfers(const PreparedProgram& prepared, RemoteBuffers& buffers,
                                 Device& device, LoadedRows& rows, bool kernels_use_host_memory,
                                 RunProfile* profile)
    : program_(prepared.program()),
      buffers_(buffers),
      rows_(rows),
      kernels_use_host_memory_(kernels_use_host_memory),
      profile_(profile) {
  while (started_.size() < prepared.num_transfers()) started_.emplace_back(device);
}

void RemoteTransfers::run(const PreparedInstruction& p, std::byte* const* operands,
                          VirtualDevice& device) {
  if (profile_ == nullptr) return move(p, operands, device);
  const double start = steady_seconds();
  move(p, operands, device);
  const double end = steady_seconds();
  profile_->waited(device.index(), end - start);
  if (p.instruction->kind == Instruction::Kind::RemoteLoadWait) return;
  const bool is_load = p.instruction->kind != Instruction::Kind::RemoteStore;
  const TransferTag tag = tag_of(*p.instruction, device);
  profile_->count_transfer(tag, is_load, p.bytes);
  // Slow memory's queue tells how long transfers took.
  if (!memory_of(*p.instruction).is_slow()) {
    profile_->transferred(tag, -1, is_load, 0, start, end);
  }
}

TransferTag RemoteTransfers::tag_of(const Instruction& transfer,
                                    const VirtualDevice& device) const {
  if (profile_ == nullptr) return {};
  const auto index = static_cast<std::size_t>(transfer.target);
  return profile_->tag(device.index(), program_.remote_buffers[index].id);
}

void RemoteTransfers::move(const PreparedInstruction& p, std::byte* const* operands,
                           VirtualDevice& device) {
  using Kind = Instruction::Kind;
  const Instruction& instruction = *p.instruction;
  RemoteMemory& memory = memory_of(instruction);
  if (instruction.kind == Kind::RemoteLoadWait) {
    if (memory.is_slow()) finish_load(p, operands[0], device);
    return;
  }
  const std::int64_t slot =
      checked_slot(instruction, device.queue().read<std::uint32_t>(operands[0], device.check()));
  std::byte* row = memory.row_in_memory(slot);
  const bool is_store = instruction.kind == Kind::RemoteStore;
  if (row == nullptr) {
    if (is_store) return store_slow(p, operands[1], slot, device);
    return load_slow(p, operands[1], slot, device);
  }
  if (is_store) return store_in_memory(p, operands[1], row, slot, device);
  load_in_memory(p, row, operands[1], slot, device);
}

std::int64_t RemoteTransfers::checked_slot(const Instruction& transfer, std::uint32_t slot) const {
  const auto index = static_cast<std::size_t>(transfer.target);
  const RemoteBufferDesc& buffer = program_.remote_buffers[index];
  if (slot < buffer.entries) return slot;
  const bool is_unsigned = transfer.count == 1;
  const auto asked =
      is_unsigned ? std::int64_t{slot} : std::int64_t{static_cast<std::int32_t>(slot)};
  throw RuntimeFault(str_cat("remote buffer ", buffer.id, " has ", buffer.entries,
                             " entries; the program asked for entry ", asked));
}

void RemoteTransfers::load_in_memory(const PreparedInstruction& p, std::byte* row, std::byte* to,
                                     std::int64_t slot, VirtualDevice& device) {
  const Instruction& load = *p.instruction;
  if (load.row >= 0 && kernels_use_host_memory_) {
    if (load.writes_row) memory_of(load).before_store(slot, device.check());
    return rows_.move(load.row, row);
  }
  device.queue().copy(row, to, p.bytes, CopyKind::HostToDevice);
  if (load.row >= 0) rows_.move(load.row, to);
}

void RemoteTransfers::store_in_memory(const PreparedInstruction& p, const std::byte* from,
                                      std::byte* row, std::int64_t slot,
                                      VirtualDevice& device) const {
  if (from == row) return;  // was written in place
  memory_of(*p.instruction).before_store(slot, device.check());
  device.queue().copy(from, row, p.bytes, CopyKind::DeviceToHost);
}

void RemoteTransfers::load_slow(const PreparedInstruction& p, std::byte* to, std::int64_t slot,
                                VirtualDevice& device) {
  const Instruction& load = *p.instruction;
  const bool is_started = load.kind == Instruction::Kind::RemoteLoadStart;
  if (load.row >= 0) rows_.move(load.row, to);
  const bool is_direct = device.queue().is_direct();
  HostStaging& staging = is_started ? started(load).staging : device.from_host();
  std::byte* place = is_direct ? to : staging.room(p.bytes, device.check());
  IoQueue& io = *buffers_.io();
  const IoQueue::Ticket ticket =
      io.start_load(memory_of(load), slot, place, p.bytes, tag_of(load, device));
  if (is_started) {
    started(load).ticket = ticket;
    return;
  }
  io.wait(ticket, device.check());
  if (!is_direct) staging.copy_to(device.queue(), to, p.bytes);
}

void RemoteTransfers::finish_load(const PreparedInstruction& p, std::byte* to,
                                  VirtualDevice& device) {
  StartedLoad& load = started(*p.instruction);
  buffers_.io()->wait(load.ticket, device.check());
  Queue& queue = device.queue();
  if (!queue.is_direct()) load.staging.copy_to(queue, to, p.bytes);
}

void RemoteTransfers::store_slow(const PreparedInstruction& p, const std::byte* from,
                                 std::int64_t slot, VirtualDevice& device) const {
  const Instruction& store = *p.instruction;
  Queue& queue = device.queue();
  const std::byte* value =
      queue.is_direct() ? from : device.to_host().read(queue, from, p.bytes, device.check());
  buffers_.io()->store(memory_of(store), slot, value, p.bytes, tag_of(store, device),
                       device.check());
}

}  // namespace pando
