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

/// What one virtual device counts addresses from.
class DeviceMemory {
 public:
  /// Device memory that a loop counts in.
  struct LoopCounter {
    std::byte* iterator = nullptr;   // int32
    std::byte* condition = nullptr;  // bool
  };

  DeviceMemory(std::byte* persistent, std::byte* frame, std::byte* counters, const LoadedRows& rows)
      : persistent_(persistent), frame_(frame), counters_(counters), rows_(rows) {}

  /// The frame of the function that a run begins with.
  std::byte* frame() const { return frame_; }
  std::byte* persistent(std::int64_t offset) const { return persistent_ + offset; }
  /// What a loop on several devices counts in: PreparedInstruction::counter.
  LoopCounter loop_counter(std::int32_t index) const {
    std::byte* place = counters_ + index * kCounterBytes;
    return {place, place + kConditionOffset};
  }
  /// `frame` and `arguments` are those of the running function. nullptr: not connected.
  std::byte* address(const OperandRef& ref, std::byte* frame, std::byte* const* arguments) const {
    switch (ref.space) {
      case OperandRef::Space::Frame:
        return frame + ref.offset;
      case OperandRef::Space::Argument:
        return arguments[ref.slot] + ref.offset;
      case OperandRef::Space::Global:
        return persistent_ + ref.offset;
      case OperandRef::Space::Row:
        return rows_.place(ref.slot) + ref.offset;
      case OperandRef::Space::None:
        break;
    }
    return nullptr;
  }

  /// What a loop counter takes: two cache lines.
  static constexpr std::int64_t kCounterBytes = 128;

 private:
  static constexpr std::int64_t kConditionOffset = 64;

  std::byte* persistent_;
  std::byte* frame_;
  std::byte* counters_;  // nullptr: no loop is on several devices
  const LoadedRows& rows_;
};

/// The memory of one replica's virtual devices. They share one persistent block and one frame.
class ProgramMemory {
 public:
  /// Throws OutOfMemory.
  ProgramMemory(const PreparedProgram& prepared, Device& device);

  const DeviceMemory& of(int device) const { return devices_[static_cast<std::size_t>(device)]; }
  /// The one that keeps persistent tensor `index`.
  int device_of_persistent(std::size_t /*index*/) const { return 0; }
  LoadedRows& rows() { return rows_; }
  std::int64_t resident_bytes() const { return block_->resident_bytes(); }

 private:
  LoadedRows rows_;
  std::unique_ptr<MemoryBlock> block_;          // persistent tensors, then the frame
  std::unique_ptr<MemoryBlock> loop_counters_;  // by device; nullptr: there are none
  std::vector<DeviceMemory> devices_;
};

}  // namespace pando
