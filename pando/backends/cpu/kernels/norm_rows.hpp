// The row loops of group normalisation in float32. A run is the contiguous part of a row that
// shares one channel, or (layer norm) a whole row whose elements are the channels.
#pragma once

#include <cstdint>

namespace pando::cpu {

struct Moments {
  float mean, variance;  // biased
};

/// Two passes over the row, which is in cache at the second.
Moments moments_f32(const float* x, std::int64_t count);

/// y[i] = (x[i] - mean) * scale + shift
void affine_row_f32(const float* x, float* y, float mean, float scale, float shift,
                    std::int64_t count);
/// y[i] = (x[i] - mean) * inv_std * weight[i] + bias[i]
void layer_norm_row_f32(const float* x, const float* weight, const float* bias, float* y,
                        float mean, float inv_std, std::int64_t count);

struct GradientSums {
  double g = 0;    // sum(g)
  double g_x = 0;  // sum(g * (x - mean) * inv_std)
};

GradientSums gradient_sums_f32(const float* g, const float* x, float mean, float inv_std,
                               std::int64_t count);
/// With e = g * weight: returns the sums of e and adds g * xhat to dweight and g to dbias.
GradientSums layer_norm_sums_f32(const float* g, const float* x, const float* weight, float mean,
                                 float inv_std, float* dweight, float* dbias, std::int64_t count);

/// dx = inv_std * (g * weight[i] - a - xhat * b); `weight` nullptr: the number `factor`.
struct GradientFactors {
  float mean, inv_std, a, b, factor;
};
void norm_gradient_row_f32(const float* g, const float* x, const float* weight, float* dx,
                           const GradientFactors& factors, std::int64_t count);

}  // namespace pando::cpu
