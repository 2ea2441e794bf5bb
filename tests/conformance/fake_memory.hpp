// The memory of the fake device, which the host cannot read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "pando/runtime/device.hpp"

namespace pando::testing {

/// Which addresses are the device's, and where its workers see them.
class FakeAddressSpace {
 public:
  /// `device`: the virtual device whose memory it is.
  void add(std::byte* address, int device, std::size_t bytes, std::byte* view);
  void remove(std::byte* address);
  /// Where workers see `bytes` of the device's memory. Throws RuntimeFault unless all of it is.
  std::byte* view_of(const std::byte* address, int device, std::size_t bytes) const;
  /// The same of any other device's memory.
  std::byte* view_elsewhere(const std::byte* address, int device, std::size_t bytes) const;
  /// Throws RuntimeFault if `address` is device memory.
  void check_host(const std::byte* address) const;

 private:
  struct Block {
    int device = 0;
    std::size_t bytes = 0;
    std::byte* view = nullptr;
  };
  std::byte* view(const Block* block, std::size_t offset, std::size_t bytes) const;
  /// The block that has the address, or nullptr.
  const Block* block_of(const std::byte* address, std::size_t* offset) const;

  mutable std::mutex mutex_;
  std::map<std::uintptr_t, Block> blocks_;  // by address
};

class FakeMemory : public MemoryBlock {
 public:
  /// Throws OutOfMemory.
  FakeMemory(std::shared_ptr<FakeAddressSpace> space, int device, std::int64_t bytes,
             const std::string& purpose);
  ~FakeMemory() override;
  std::int64_t resident_bytes() const override { return static_cast<std::int64_t>(bytes_); }

 private:
  std::shared_ptr<FakeAddressSpace> space_;
  std::size_t bytes_ = 0;
  std::byte* view_ = nullptr;
};

}  // namespace pando::testing
