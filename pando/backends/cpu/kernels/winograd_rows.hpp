// The transforms of Winograd's convolution F(2x2, 3x3) in float32: results of 2x2 pixels from tiles
// of 4x4 by 16 products a channel in place of 36. y = A^T [(G g G^T) * (B^T d B)] A with the
// matrices of Lavin and Gray, Fast Algorithms for Convolutional Neural Networks
// (arXiv:1509.09308), 4.1. A gradient has the transposed transforms.
#pragma once

#include <cstdint>

namespace pando::cpu {

inline constexpr int kWinogradTile = 16;   // pixels that are read, and products
inline constexpr int kWinogradPixels = 4;  // pixels of the result
inline constexpr int kWinogradTaps = 9;
/// What the channels of images are multiples of.
inline constexpr std::int64_t kWinogradChannels = 16;

/// B^T d B of each channel. Pixels of `tile` have `channels` neighbours; product i goes to
/// `to + i * stride`.
void winograd_tile_f32(const float* const* tile, std::int64_t channels, float* to,
                       std::int64_t stride);
/// A^T m A of each channel, from products at `from + i * stride` to the pixels.
void winograd_pixels_f32(const float* from, std::int64_t stride, std::int64_t channels,
                         float* const* pixels);
/// A y A^T: the gradient of the products, given that of the pixels.
void winograd_pixels_grad_f32(const float* const* pixels, std::int64_t channels, float* to,
                              std::int64_t stride);
/// How filters of 9 taps become products.
struct FilterOrder {
  std::int64_t distance = kWinogradTaps;  // of neighbours, in elements
  bool rotates = false;                   // turned by 180 degrees
};
/// G g G^T of `count` filters, a multiple of kWinogradChannels.
void winograd_filters_f32(const float* filters, std::int64_t count, FilterOrder order, float* to,
                          std::int64_t stride);
/// G^T u G: the gradient of as many filters, one after the other, given that of their products.
void winograd_filters_grad_f32(const float* from, std::int64_t stride, std::int64_t count,
                               float* filters);

}  // namespace pando::cpu
