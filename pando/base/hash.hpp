// Hashes of bytes (XXH3): fast and well mixed, but no protection against forgery.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace pando {

struct Hash128 {
  std::uint64_t high = 0;
  std::uint64_t low = 0;

  /// 32 lower-case hexadecimal digits.
  std::string hex() const;
  bool operator==(const Hash128&) const = default;
};

std::uint64_t hash64(std::string_view bytes);
Hash128 hash128(std::string_view bytes);

}  // namespace pando
