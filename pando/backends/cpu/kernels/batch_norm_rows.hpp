// Sums over one block of data in float32, for the statistics of batch normalisation. A block is
// `rows` rows of `count` neighbours, `stride` elements apart, small enough to stay in cache and for
// sums in float.
#pragma once

#include <cstdint>

namespace pando::cpu {

struct BlockMoments {
  float mean, squares;  // squares = sum((x - mean)^2)
};
/// Of all elements of the block.
BlockMoments block_moments_f32(const float* x, std::int64_t stride, std::int64_t rows,
                               std::int64_t count);
/// Of each column: `mean` and `squares` have `count` elements.
void column_moments_f32(const float* x, std::int64_t stride, std::int64_t rows, std::int64_t count,
                        float* mean, float* squares);

struct BlockProducts {
  float g, g_x;  // sum(g) and sum(g * (x - mean))
};
BlockProducts block_products_f32(const float* g, const float* x, std::int64_t stride,
                                 std::int64_t rows, std::int64_t count, float mean);
/// Of each column, with its mean: `sum_g` and `sum_g_x` have `count` elements.
void column_products_f32(const float* g, const float* x, std::int64_t stride, std::int64_t rows,
                         std::int64_t count, const float* mean, float* sum_g, float* sum_g_x);

}  // namespace pando::cpu
