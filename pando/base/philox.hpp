// Philox4x32-10, the counter-based random generator behind every random op.
//
// Algorithm: J. Salmon, M. Moraes, R. Dror, D. Shaw, "Parallel random numbers: as easy as 1, 2, 3"
// (SC 2011). A random word is a pure function of (key, stream, element index); nothing has state.
#pragma once

#include <array>
#include <cstdint>

namespace pando {

using PhiloxCounter = std::array<std::uint32_t, 4>;
using PhiloxKey = std::array<std::uint32_t, 2>;

/// Ten rounds of Philox4x32 over one counter.
constexpr PhiloxCounter philox4x32_10(PhiloxCounter counter, PhiloxKey key) {
  constexpr std::uint64_t kMultiplier0 = 0xD2511F53u;
  constexpr std::uint64_t kMultiplier1 = 0xCD9E8D57u;
  constexpr std::uint32_t kWeyl0 = 0x9E3779B9u;
  constexpr std::uint32_t kWeyl1 = 0xBB67AE85u;
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t product0 = kMultiplier0 * counter[0];
    const std::uint64_t product1 = kMultiplier1 * counter[2];
    counter = {static_cast<std::uint32_t>(product1 >> 32) ^ counter[1] ^ key[0],
               static_cast<std::uint32_t>(product1),
               static_cast<std::uint32_t>(product0 >> 32) ^ counter[3] ^ key[1],
               static_cast<std::uint32_t>(product0)};
    key[0] += kWeyl0;
    key[1] += kWeyl1;
  }
  return counter;
}

/// Where the word of an element comes from. 1024 consecutive elements share 256 consecutive
/// counters: elements 0..255 take word 0 of each, 256..511 word 1, and so on, so that SIMD code
/// that computes whole counters stores every word it makes to consecutive elements.
struct PhiloxPosition {
  std::uint32_t counter;
  std::uint32_t word;
};
constexpr PhiloxPosition philox_position(std::uint32_t index) {
  return {(index >> 10) * 256u + (index & 255u), (index >> 8) & 3u};
}

/// The random word of element `index`. Counter words: (position counter, 0, stream, 0). Streams
/// keep kinds of random op apart under one key.
constexpr std::uint32_t philox_word(std::uint32_t key0, std::uint32_t key1, std::uint32_t index,
                                    std::uint32_t stream) {
  const PhiloxPosition at = philox_position(index);
  return philox4x32_10({at.counter, 0u, stream, 0u}, {key0, key1})[at.word];
}

/// Uniform in [0, 1): the upper 24 bits of the word times 2^-24, exact in float32.
constexpr float philox_uniform(std::uint32_t word) {
  return static_cast<float>(word >> 8) * 0x1p-24f;
}

/// The `stream` of each kind of random op.
enum class PhiloxStream : std::uint32_t {
  Dropout = 1,
  ShapedDropout = 2,
  Uniform = 3,
  NormalRadius = 4,
  NormalAngle = 5,
  ModifySeed = 6,
};

}  // namespace pando
