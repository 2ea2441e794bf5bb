// What the MatMul candidates share.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "pando/backends/cpu/kernel_table.hpp"
#include "pando/base/band.hpp"

namespace pando::cpu {

/// What is known of matrices of a product: see the op MatMul.
struct MatMulBands {
  std::optional<Band> lhs, rhs, out;

  bool any() const { return lhs || rhs || out; }
};

/// out[b, m, n] = epilogue(sum_k lhs[b, m, k] * rhs[b, k, n] + bias[n]). Strides in elements.
struct MatMulProblem {
  DType dtype = DType::Float32;
  std::int64_t m = 0, n = 0, k = 0;
  Shape batch;  // of the output; leading dimensions
  Strides lhs_batch, rhs_batch;
  std::int64_t lhs_row = 0, lhs_column = 0, rhs_row = 0, rhs_column = 0;
  // From one row of the result to the next, and from one product of the batch to the next.
  std::int64_t out_row = 0, out_product = 0;
  MatMulBands bands;
  bool has_bias = false;
  std::string epilogue;

  std::int64_t batch_count() const;
  /// Merges a batch that only lhs has into its rows (unless there are bands, which are of one
  /// product), and drops batch dimensions of size 1.
  void simplify();
};

/// The epilogues that the kernels of this library apply themselves.
enum class Activation { None, Relu, Tanh, Sigmoid, Swish, GeluTanh };

/// False if `name` is none of them ("" is None).
bool parse_activation(const std::string& name, Activation& activation);

/// Elements from the first product of a batch to product `index`, for `strides` of an operand.
std::int64_t batch_offset(const MatMulProblem& problem, const Strides& strides, std::int64_t index);

/// Fills in the problem, or returns why the spec is not one.
std::string parse_matmul(const KernelRequest& request, MatMulProblem& problem);

/// Applies `epilogue` to one value, in double or float.
float apply_epilogue(const std::string& epilogue, float value);

KernelPlan make_banded_matmul(const KernelRequest& request);
KernelPlan make_onednn_matmul(const KernelRequest& request);
KernelPlan make_packed_matmul(const KernelRequest& request);
KernelPlan make_skinny_matmul(const KernelRequest& request);
KernelPlan make_half_matmul(const KernelRequest& request);
KernelPlan make_plain_matmul(const KernelRequest& request);

// float32 products. Those of oneDNN and the packed ones take any strides of the result.
KernelPlan plan_banded_matmul(const MatMulProblem& problem, int num_threads);
KernelPlan plan_onednn_matmul(const MatMulProblem& problem, int num_threads);
KernelPlan plan_packed_matmul(const MatMulProblem& problem, int num_threads);
KernelPlan plan_skinny_matmul(const MatMulProblem& problem, int num_threads);

}  // namespace pando::cpu
