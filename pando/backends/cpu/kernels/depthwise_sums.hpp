// The sums of gradients of depthwise filters.
#pragma once

#include <cstdint>

namespace pando::cpu {

/// The gradient of one image of results, and the image that it meets.
struct DepthwisePlane {
  const float* gradient = nullptr;  // (rows, columns)
  std::int64_t rows = 0, columns = 0;
  const float* image = nullptr;
  std::int64_t image_row = 0;  // elements from what one row of results meets to the next one's
};

/// Adds the sum over y, x of gradient[y, x] * image[offsets[t] + y * image_row + x] to sums[t], for
/// `count` taps t.
void add_depthwise_sums(const DepthwisePlane& plane, const std::int64_t* offsets,
                        std::int64_t count, float* sums);

}  // namespace pando::cpu
