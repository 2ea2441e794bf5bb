#include "pando/base/hash.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace pando {

std::string Hash128::hex() const {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const std::uint64_t half : {high, low}) {
    for (int shift = 60; shift >= 0; shift -= 4) text += kDigits[(half >> shift) & 15];
  }
  return text;
}

std::uint64_t hash64(std::string_view bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

namespace {

Hash128 converted(XXH128_hash_t hash) { return {hash.high64, hash.low64}; }

}  // namespace

Hash128 hash128(std::string_view bytes) {
  return converted(XXH3_128bits(bytes.data(), bytes.size()));
}

struct HashWriter::State {
  XXH3_state_t hash;
};

HashWriter::HashWriter() : state_(std::make_unique<State>()) { XXH3_128bits_reset(&state_->hash); }

HashWriter::~HashWriter() = default;

void HashWriter::flush() {
  XXH3_128bits_update(&state_->hash, buffer_.data(), used_);
  used_ = 0;
}

void HashWriter::raw_large(const void* data, std::size_t size) {
  flush();
  XXH3_128bits_update(&state_->hash, data, size);
}

Hash128 HashWriter::finish() && {
  flush();
  return converted(XXH3_128bits_digest(&state_->hash));
}

}  // namespace pando
