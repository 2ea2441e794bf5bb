// A place in the host's memory for what comes from device memory or goes there.
#pragma once

#include <cstddef>
#include <memory>

#include "pando/runtime/device.hpp"

namespace pando {

/// Used again for one transfer after the other; grows to the largest.
class HostStaging {
 public:
  explicit HostStaging(Device& device) : device_(device) {}

  /// A copy of device memory, after all work of the queue so far. Good until the next call.
  const std::byte* read(Queue& queue, const std::byte* memory, std::size_t bytes,
                        const StopCheck& check);
  /// Room for the host to write to, once the last copy_to has read it.
  std::byte* room(std::size_t bytes, const StopCheck& check);
  /// Asks `queue` for a copy of the room to device memory.
  void copy_to(Queue& queue, std::byte* memory, std::size_t bytes);

 private:
  Device& device_;
  std::unique_ptr<MemoryBlock> block_;
  std::size_t capacity_ = 0;
  Queue* reader_ = nullptr;  // of the last copy_to
  Queue::Event read_at_ = 0;
};

}  // namespace pando
