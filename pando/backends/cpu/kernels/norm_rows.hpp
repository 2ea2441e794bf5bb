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

/// `count` rows of sums, `step` floats from one to the next.
struct PartialSums {
  const float* first;
  std::int64_t step, count;
};

/// sums[i] = the sum of partial sum i of every row, in the order of the rows, in double.
template <class T>
void add_partial_sums(const PartialSums& partial, T* sums, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    double total = 0;
    for (std::int64_t b = 0; b < partial.count; ++b) total += partial.first[b * partial.step + i];
    sums[i] = static_cast<T>(total);
  }
}
void add_partial_sums(const PartialSums& partial, float* sums, std::int64_t count);

}  // namespace pando::cpu
