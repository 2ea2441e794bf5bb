#include "pando/base/checksum.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace pando {

struct Checksum::State {
  XXH3_state_t hash;
};

Checksum::Checksum() : state_(std::make_unique<State>()) { XXH3_64bits_reset(&state_->hash); }

Checksum::~Checksum() = default;

void Checksum::update(const std::byte* data, std::size_t bytes) {
  XXH3_64bits_update(&state_->hash, data, bytes);
}

std::uint64_t Checksum::value() const { return XXH3_64bits_digest(&state_->hash); }

}  // namespace pando
