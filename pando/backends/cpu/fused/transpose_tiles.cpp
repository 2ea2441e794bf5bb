#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "pando/backends/cpu/fused/transpose_tiles.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "pando/backends/cpu/fused/transpose_block.hpp"
#include "pando/backends/cpu/transpose_four-inl.h"

HWY_BEFORE_NAMESPACE();
namespace pando::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Block = TransposeBlock<std::uint32_t>;

#if HWY_TARGET == HWY_SCALAR
void TransposeTiles(const Block& b) { transpose_elements(b); }
#else
/// Tiles of four by four, then the columns and the rows that are left.
void TransposeTiles(const Block& b) {
  const hn::FixedTag<std::uint32_t, 4> d;
  const std::int64_t rows = b.rows / 4 * 4, columns = b.columns / 4 * 4;
  for (std::int64_t r = 0; r < rows; r += 4) {
    for (std::int64_t c = 0; c < columns; c += 4) {
      const std::uint32_t* in = b.in + c * b.in_stride + r;
      const hn::Vec<decltype(d)> lines[4] = {hn::LoadU(d, in), hn::LoadU(d, in + b.in_stride),
                                             hn::LoadU(d, in + 2 * b.in_stride),
                                             hn::LoadU(d, in + 3 * b.in_stride)};
      hn::Vec<decltype(d)> tile[4];
      TransposeFour(d, lines, tile);
      std::uint32_t* out = b.out + r * b.out_stride + c;
      hn::StoreU(tile[0], d, out);
      hn::StoreU(tile[1], d, out + b.out_stride);
      hn::StoreU(tile[2], d, out + 2 * b.out_stride);
      hn::StoreU(tile[3], d, out + 3 * b.out_stride);
    }
  }
  transpose_elements(Block{b.in + columns * b.in_stride, b.in_stride, b.out + columns, b.out_stride,
                           b.rows, b.columns - columns});
  transpose_elements(Block{b.in + rows, b.in_stride, b.out + rows * b.out_stride, b.out_stride,
                           b.rows - rows, columns});
}
#endif

}  // namespace HWY_NAMESPACE
}  // namespace pando::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pando::cpu {

HWY_EXPORT(TransposeTiles);

void transpose_tiles(const TransposeBlock<std::uint32_t>& b) {
  HWY_DYNAMIC_DISPATCH(TransposeTiles)(b);
}

}  // namespace pando::cpu
#endif  // HWY_ONCE
