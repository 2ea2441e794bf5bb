// Matrix products whose sizes are known only when they run.
#pragma once

#include <cstdint>

namespace pando::cpu {

/// A float32 matrix in rows of `row` elements; `is_transposed`: the product reads its transpose.
struct GemmOperand {
  const float* data;
  std::int64_t row;
  bool is_transposed = false;
};

/// c (m, n, in rows of `c_row`) = a (m, k) b (k, n) on the calling thread alone. Throws
/// RuntimeFault if oneDNN fails, as it does without memory for copies of its operands.
void onednn_gemm(std::int64_t m, std::int64_t n, std::int64_t k, const GemmOperand& a,
                 const GemmOperand& b, float* c, std::int64_t c_row);

}  // namespace pando::cpu
