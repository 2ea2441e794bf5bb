#include "pando/backends/cpu/onednn/onednn_gemm.hpp"

#include <dnnl.h>

#include "pando/backends/cpu/onednn/onednn.hpp"
#include "pando/base/error.hpp"
#include "pando/base/signals_held.hpp"

namespace pando::cpu {

void onednn_gemm(std::int64_t m, std::int64_t n, std::int64_t k, const GemmOperand& a,
                 const GemmOperand& b, float* c, std::int64_t c_row) {
  const SingleThreaded single;
  dnnl_status_t status = dnnl_success;
  {
    // As primitives do, kernels of products may have their stack in a buffer of the heap.
    const SignalsHeld held;
    status = dnnl_sgemm(a.is_transposed ? 'T' : 'N', b.is_transposed ? 'T' : 'N', m, n, k, 1.0f,
                        a.data, a.row, b.data, b.row, 0.0f, c, c_row);
  }
  if (status != dnnl_success) {
    throw RuntimeFault(str_cat("oneDNN failed to multiply matrices (status ", int(status), ")"));
  }
}

}  // namespace pando::cpu
