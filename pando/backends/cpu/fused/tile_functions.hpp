// Micro-instructions of the fused machine: one SIMD loop over a tile each.
#pragma once

#include <cstddef>
#include <cstdint>

#include "pando/base/scalar_program.hpp"

namespace pando::cpu {

/// Operands of one micro-instruction. Elements are 4 or 8 bytes wide by lane type. An operand
/// marked as splat is one element for the whole tile.
struct TileArguments {
  void* out;
  void* out2;  // superinstructions with a second result
  const void* a;
  const void* b;
  const void* c;
  std::size_t count;
  std::uint64_t first;  // linear index of the tile's first element
  float s0, s1;         // constants of superinstructions
  std::int32_t index;   // Philox: stream
};

using TileFunction = void (*)(const TileArguments&);

/// Bits 0, 1, 2: operand a, b, c is a splat.
using SplatMask = unsigned;

/// The function of a scalar op in a lane type (of its operands; for Convert: `from` -> `lane`), for
/// the SIMD target of this machine. Never nullptr for valid combinations.
TileFunction tile_function(ScalarOp op, LaneType lane, SplatMask splats);
TileFunction convert_function(LaneType from, LaneType to);
/// Storage dtype -> tile of lane_of(dtype), and back.
TileFunction load_function(DType dtype);
TileFunction store_function(DType dtype, LaneType lane);
/// Round in place of `dtype` (see ScalarOp::Round).
TileFunction round_function(DType dtype);

// Superinstructions on F32 tiles. All round every step as the plain sequence does.
enum class SuperOp : std::uint8_t {
  EmaHalf,         // half(half(half memory a * s0) + half(half(b) * s1)); out, and half memory out2
  EmaSquare,       // a * s0 + (b * s1) * b; out
  DivSqrtAdd,      // a / (sqrt(b) + s0)
  DivSqrtAddHalf,  // half(a / (sqrt(b) + s0))
};
TileFunction super_function(SuperOp op);

/// Name of the SIMD target in use.
const char* simd_target_name();

}  // namespace pando::cpu
