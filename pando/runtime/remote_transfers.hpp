// The transfers that a program does with remote buffers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>

#include "pando/program/program.hpp"
#include "pando/runtime/host_staging.hpp"
#include "pando/runtime/loaded_rows.hpp"
#include "pando/runtime/prepared_program.hpp"
#include "pando/runtime/remote_buffers.hpp"
#include "pando/runtime/run_profile.hpp"
#include "pando/runtime/virtual_device.hpp"

namespace pando {

/// Rows in memory are copied by the device's queue, or used where they lie; rows elsewhere are
/// moved by the I/O threads, through memory of the host if the queue is not direct.
class RemoteTransfers {
 public:
  /// Keeps references. `kernels_use_host_memory`: see Target. `profile` may be nullptr.
  RemoteTransfers(const PreparedProgram& prepared, RemoteBuffers& buffers, Device& device,
                  LoadedRows& rows, bool kernels_use_host_memory, RunProfile* profile);

  /// Does a RemoteLoad, RemoteLoadStart, RemoteLoadWait or RemoteStore. Throws RuntimeFault.
  void run(const PreparedInstruction& transfer, std::byte* const* operands, VirtualDevice& device);

 private:
  /// A load that is started and waited for.
  struct StartedLoad {
    explicit StartedLoad(Device& device) : staging(device) {}
    IoQueue::Ticket ticket = 0;
    HostStaging staging;  // if the queue is not direct
  };

  RemoteMemory& memory_of(const Instruction& transfer) const {
    return buffers_.memory(static_cast<std::size_t>(transfer.target));
  }
  StartedLoad& started(const Instruction& transfer) {
    return started_[static_cast<std::size_t>(transfer.other_target)];
  }
  void move(const PreparedInstruction& transfer, std::byte* const* operands, VirtualDevice& device);
  std::int64_t checked_slot(const Instruction& transfer, std::uint32_t slot) const;
  void load_in_memory(const PreparedInstruction& load, std::byte* row, std::byte* to,
                      std::int64_t slot, VirtualDevice& device);
  void store_in_memory(const PreparedInstruction& store, const std::byte* from, std::byte* row,
                       std::int64_t slot, VirtualDevice& device) const;
  void load_slow(const PreparedInstruction& load, std::byte* to, std::int64_t slot,
                 VirtualDevice& device);
  void store_slow(const PreparedInstruction& store, const std::byte* from, std::int64_t slot,
                  VirtualDevice& device) const;
  void finish_load(const PreparedInstruction& wait, std::byte* to, VirtualDevice& device);
  /// Says what the device does now: that is what the transfer belongs to.
  TransferTag tag_of(const Instruction& transfer, const VirtualDevice& device) const;

  const Program& program_;
  RemoteBuffers& buffers_;
  LoadedRows& rows_;
  const bool kernels_use_host_memory_;
  RunProfile* profile_;
  std::deque<StartedLoad> started_;  // by transfer
};

}  // namespace pando
