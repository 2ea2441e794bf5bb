// The machine that runs a program: its memory, and queues of work on it.
//
// Addresses of device memory are numbers to the host, which may add to them but reads and writes
// nothing there: queues do. On a direct queue, as the CPU's, all of it is plain calls and accesses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <type_traits>

#include "pando/program/kernel.hpp"
#include "pando/runtime/waiting.hpp"

namespace pando {

/// Memory that is freed with the object; zeros at first.
class MemoryBlock {
 public:
  virtual ~MemoryBlock() = default;
  MemoryBlock(const MemoryBlock&) = delete;
  MemoryBlock& operator=(const MemoryBlock&) = delete;

  /// Its first address, a multiple of 64 at least.
  std::byte* data() const { return data_; }
  /// What it really takes by now.
  virtual std::int64_t resident_bytes() const = 0;
  /// Gives back what a part takes whose content is of no use any more: it may be anything then.
  virtual void discard(std::byte* /*from*/, std::int64_t /*bytes*/) {}

 protected:
  MemoryBlock() = default;
  std::byte* data_ = nullptr;
};

/// Between which memories a copy is.
/// BetweenDevices: from another virtual device to the one whose queue it is.
enum class CopyKind : std::uint8_t { WithinDevice, BetweenDevices, HostToDevice, DeviceToHost };

/// Work that a device does in the order of the calls, which come from one thread at a time. Calls
/// that ask for work may return before it is done, and may wait while much is to be done; memory of
/// the host that it reads or writes must stay until then. What fails is thrown by a call that waits
/// for it, or by any later one; nothing behind it is done. Then, and when a wait was ended,
/// abandon() must follow.
class Queue {
 public:
  /// A point in the work of one queue. Later points are larger; 0 is always reached.
  using Event = std::uint64_t;

  virtual ~Queue() = default;
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  /// Whether work is done by the calling thread before the call returns, on memory that the host
  /// may dereference, and kernels are HostKernels.
  bool is_direct() const { return direct_; }

  /// See HostKernel for the operands; the list may be changed when it returns. Who has a HostKernel
  /// and a direct queue may as well call the kernel.
  virtual void run(const Kernel& kernel, std::span<std::byte* const> operands,
                   std::byte* scratch) = 0;
  /// The two places do not overlap.
  virtual void copy(const std::byte* from, std::byte* to, std::size_t bytes, CopyKind kind) = 0;
  virtual void fill_with_zeros(std::byte* memory, std::size_t bytes) = 0;
  /// One scalar of the device's memory, after all work so far.
  template <class T>
  T read(const std::byte* memory, const StopCheck& check) {
    static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= kScalarBytes);
    T value;
    if (direct_) [[likely]] {
      std::memcpy(&value, memory, sizeof value);
    } else {
      read_scalar(memory, &value, sizeof value, check);
    }
    return value;
  }
  /// Sets one scalar of the device's memory.
  template <class T>
  void write(std::byte* memory, T value) {
    static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= kScalarBytes);
    if (direct_) [[likely]] {
      std::memcpy(memory, &value, sizeof value);
    } else {
      write_scalar(memory, &value, sizeof value);
    }
  }

  /// The point that is reached when all work so far is done.
  virtual Event record() = 0;
  /// Work asked for from now on waits until `other`, of the same device, has reached `event`, which
  /// was recorded before. It fails as `other` does.
  virtual void wait_for(Queue& other, Event event) = 0;
  /// Returns when `event` is reached. Throws what the work before it threw, or `check` does.
  virtual void wait(Event event, const StopCheck& check) = 0;
  /// Work that has not begun is dropped, what runs is waited for, a failure is forgotten. All
  /// events count as reached. Work of other queues that waits for this one must be abandoned too.
  virtual void abandon() = 0;

 protected:
  static constexpr std::size_t kScalarBytes = 8;

  explicit Queue(bool direct) : direct_(direct) {}

 private:
  // Behind read and write where the queue is not direct.
  virtual void read_scalar(const std::byte* memory, void* value, std::size_t bytes,
                           const StopCheck& check) = 0;
  virtual void write_scalar(std::byte* memory, const void* value, std::size_t bytes) = 0;

  const bool direct_;
};

/// One per replica, with virtual devices that are numbered from 0. Methods may be called from any
/// thread. Outlives its memory and its queues.
class Device {
 public:
  virtual ~Device() = default;
  /// Memory of a virtual device. Throws OutOfMemory, which says what it is for.
  virtual std::unique_ptr<MemoryBlock> allocate(int virtual_device, std::int64_t bytes,
                                                const std::string& purpose) = 0;
  /// Memory of the host that copies reach fastest (page-locked, where that makes a difference).
  virtual std::unique_ptr<MemoryBlock> allocate_host(std::int64_t bytes,
                                                     const std::string& purpose) = 0;
  /// A queue of a virtual device. It uses memory of that one alone, but for copies between devices,
  /// unless Target::devices_share_memory.
  virtual std::unique_ptr<Queue> make_queue(int virtual_device) = 0;
};

}  // namespace pando
