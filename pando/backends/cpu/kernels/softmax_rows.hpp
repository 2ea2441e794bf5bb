// The row loops of Softmax and SoftmaxGrad in float32.
#pragma once

#include <cstdint>

namespace pando::cpu {

/// out[i] = exp(scale * (in[i] - max)) / sum(exp(scale * (in - max))) for scale > 0; `out` may be
/// `in`. NaN anywhere gives NaN.
void softmax_row_f32(const float* in, float* out, std::int64_t count, float scale);
/// dx[i] = scale * out[i] * (g[i] - sum(g * out)); `dx` may be either input.
void softmax_grad_row_f32(const float* out, const float* g, float* dx, std::int64_t count,
                          float scale);

}  // namespace pando::cpu
