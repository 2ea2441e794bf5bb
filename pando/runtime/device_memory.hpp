// Memory of one device or remote buffer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace pando {

/// Page-aligned, from the operating system (zero at first touch).
class DeviceMemory {
 public:
  /// Throws OutOfMemory, which says what the memory is for.
  DeviceMemory(std::int64_t bytes, const std::string& purpose);
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  std::byte* data() const { return data_; }
  /// Bytes of the pages that have been touched.
  std::int64_t resident_bytes() const;

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace pando
