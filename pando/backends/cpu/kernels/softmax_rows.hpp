// The row loops of Softmax, SoftmaxGrad and losses of probabilities in float32.
#pragma once

#include <cstdint>

namespace pando::cpu {

/// out[i] = exp(scale * (in[i] - max)) / sum(exp(scale * (in - max))) for scale > 0; `out` may be
/// `in`. NaN anywhere gives NaN.
void softmax_row_f32(const float* in, float* out, std::int64_t count, float scale);
/// dx[i] = scale * out[i] * (g[i] - sum(g * out)); `dx` may be either input.
void softmax_grad_row_f32(const float* out, const float* g, float* dx, std::int64_t count,
                          float scale);
/// out[i] = factor * in[i]; `out` may be `in`.
void multiply_row_f32(const float* in, float* out, std::int64_t count, float factor);

}  // namespace pando::cpu
