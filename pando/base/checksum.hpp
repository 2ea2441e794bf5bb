// Checksums of stored data: XXH3, 64 bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace pando {

/// Finds accidents, not forgeries.
std::uint64_t checksum(const std::byte* data, std::size_t bytes);

/// The same over data that comes in pieces.
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
