// The device memory of a program, and where its operands lie in it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "pando/program/program.hpp"
#include "pando/runtime/device.hpp"
#include "pando/runtime/loaded_rows.hpp"
#include "pando/runtime/prepared_program.hpp"

namespace pando {

/// The memory of one replica's virtual devices: for each a block with its persistent tensors and
/// its frame, and loop counters.
class ProgramMemory {
 public:
  /// Device memory that a loop counts in.
  struct LoopCounter {
    std::byte* iterator = nullptr;   // int32
    std::byte* condition = nullptr;  // bool
  };

  /// Throws OutOfMemory.
  ProgramMemory(const PreparedProgram& prepared, Device& device);

  /// By device, the frame of the function that a run begins with.
  std::byte* const* frames() const { return frames_.data(); }
  /// `frames`, by device, and `arguments` are those of the running function. nullptr: not
  /// connected.
  std::byte* address(const OperandRef& ref, std::byte* const* frames,
                     std::byte* const* arguments) const {
    switch (ref.space) {
      case OperandRef::Space::Frame:
        return frames[ref.device] + ref.offset;
      case OperandRef::Space::Argument:
        return arguments[ref.slot] + ref.offset;
      case OperandRef::Space::Global:
        return persistent_[ref.device] + ref.offset;
      case OperandRef::Space::Row:
        return rows_.place(ref.slot) + ref.offset;
      case OperandRef::Space::None:
        break;
    }
    return nullptr;
  }
  /// Of a staged tensor: while its functions run.
  std::byte* address(const PersistentTensor& tensor) const {
    const auto device = static_cast<std::size_t>(tensor.device);
    return tensor.is_staged() ? frames_[device] : persistent_[device] + tensor.offset;
  }
  /// Gives back what a persistent tensor, or all frames, take: nothing reads them any more.
  void discard(const PersistentTensor& tensor) const;
  void discard_frames() const;
  /// Of a loop on several devices, of which each counts for itself: PreparedInstruction::counter.
  LoopCounter loop_counter(int device, std::int32_t index) const;
  LoadedRows& rows() { return rows_; }
  std::int64_t resident_bytes() const;

 private:
  LoadedRows rows_;
  // All by device.
  std::vector<std::unique_ptr<MemoryBlock>> blocks_;
  std::vector<std::byte*> persistent_, frames_;
  std::vector<std::int64_t> frame_bytes_;
  std::vector<std::unique_ptr<MemoryBlock>> loop_counters_;  // empty: there are none
};

}  // namespace pando
