// Where the channels of images are: (N, C, spatial...), or (N, spatial..., C) for ops with the
// attribute `channel_last`.
#pragma once

#include <cstdint>

#include "pando/ir/op_def.hpp"

namespace pando {

inline bool is_channel_last(const Op& op) { return op.attributes.flag_or("channel_last", false); }

/// Of a shape of rank 2 or more.
inline std::int64_t channels_of(const Op& op, const Shape& shape) {
  return is_channel_last(op) ? shape.back() : shape[1];
}

/// The dimensions that are neither batch nor channels.
inline Shape spatial_dimensions(const Op& op, const Shape& shape) {
  if (shape.size() < 2) return {};
  const std::ptrdiff_t begin = is_channel_last(op) ? 1 : 2;
  return Shape(shape.begin() + begin, shape.begin() + begin + std::ptrdiff_t(shape.size()) - 2);
}

inline Shape image_shape(const Op& op, std::int64_t batch, std::int64_t channels,
                         const Shape& spatial) {
  Shape shape = {batch, channels};
  shape.insert(is_channel_last(op) ? shape.begin() + 1 : shape.end(), spatial.begin(),
               spatial.end());
  return shape;
}

}  // namespace pando
