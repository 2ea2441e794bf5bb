// Memory of this process, for what is large.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "pando/runtime/device.hpp"

namespace pando {

/// As map_memory gives it: zero at first touch.
class HostMemory : public MemoryBlock {
 public:
  /// Throws OutOfMemory, which says what the memory is for.
  HostMemory(std::int64_t bytes, const std::string& purpose);
  ~HostMemory() override;

  /// Bytes of the pages that have been touched.
  std::int64_t resident_bytes() const override;
  /// Of the pages that lie in the part as a whole.
  void discard(std::byte* from, std::int64_t bytes) override;

 private:
  std::size_t bytes_ = 0;
};

}  // namespace pando
