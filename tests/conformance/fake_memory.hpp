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
  void add(std::byte* address, std::size_t bytes, std::byte* view);
  void remove(std::byte* address);
  /// Where workers see `bytes` of device memory. Throws RuntimeFault unless all of it is.
  std::byte* view_of(const std::byte* address, std::size_t bytes) const;
  /// Throws RuntimeFault if `address` is device memory.
  void check_host(const std::byte* address) const;

 private:
  struct Block {
    std::size_t bytes = 0;
    std::byte* view = nullptr;
  };
  /// The block that has the address, or nullptr.
  const Block* block_of(const std::byte* address, std::size_t* offset) const;

  mutable std::mutex mutex_;
  std::map<std::uintptr_t, Block> blocks_;  // by address
};

class FakeMemory : public MemoryBlock {
 public:
  /// Throws OutOfMemory.
  FakeMemory(std::shared_ptr<FakeAddressSpace> space, std::int64_t bytes,
             const std::string& purpose);
  ~FakeMemory() override;
  std::int64_t resident_bytes() const override { return static_cast<std::int64_t>(bytes_); }

 private:
  std::shared_ptr<FakeAddressSpace> space_;
  std::size_t bytes_ = 0;
  std::byte* view_ = nullptr;
};

}  // namespace pando::testing
