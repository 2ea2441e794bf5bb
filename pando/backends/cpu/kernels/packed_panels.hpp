// Panels of matrices, as wide as a register tile, and their products.
#pragma once

#include <cstdint>

#include "pando/base/dtype.hpp"

namespace pando::cpu {

/// A (lines x depth) matrix of float32, float16 or bfloat16 seen as lines that a panel puts side by
/// side: rows of the lhs, columns of the rhs. Strides in elements; one of them is 1.
struct PackSource {
  const void* data;
  DType dtype;
  std::int64_t line_stride, depth_stride;
};

/// Where pack_columns had float32 lines from.
struct UnpackTarget {
  float* data;
  std::int64_t line_stride, depth_stride;
};

/// One block of the sum over k: adds lhs (packed rows) times rhs (packed columns) to `out`.
struct PackedBlock {
  const float* lhs;  // panels of kRows rows
  const float* rhs;  // panels of kColumns columns
  std::int64_t rows, columns, depth;
  float* out;
  std::int64_t out_row;
  bool first;         // of the blocks along k
  const float* bias;  // of the first column, or nullptr
};

/// Sizes of a register tile on the running machine.
struct PackedTile {
  std::int64_t rows, columns;
};
PackedTile packed_tile();

/// Floats that a panel may need beyond its end.
constexpr std::int64_t kPanelSlack = 16;

/// Packs lines into panels as wide as the tile, `depth` values each, as float32.
void pack_rows(const PackSource& from, std::int64_t rows, std::int64_t depth, float* to);
void pack_columns(const PackSource& from, std::int64_t columns, std::int64_t depth, float* to);

/// Gives back what pack_columns packed.
void unpack_columns(const float* from, std::int64_t columns, std::int64_t depth,
                    const UnpackTarget& to);

void multiply_block(const PackedBlock& block);

}  // namespace pando::cpu
