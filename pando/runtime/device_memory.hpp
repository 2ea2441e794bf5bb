// Memory of one device or remote buffer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace pando {

/// Page-aligned, with large pages if it is as long as one, from the operating system (zero at first
/// touch).
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
  std::size_t bytes_ = 0;
  void* mapping_ = nullptr;
  std::size_t mapped_bytes_ = 0;
  std::byte* data_ = nullptr;
};

}  // namespace pando
