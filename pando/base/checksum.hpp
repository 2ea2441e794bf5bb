// Checksums of stored data: XXH3, 64 bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace pando {

/// hash64 over data that comes in pieces. Finds accidents, not forgeries.
class Checksum {
 public:
  Checksum();
  ~Checksum();
  Checksum(const Checksum&) = delete;
  Checksum& operator=(const Checksum&) = delete;

  void update(const std::byte* data, std::size_t bytes);
  std::uint64_t value() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace pando
