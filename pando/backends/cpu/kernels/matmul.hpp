// What the MatMul candidates share.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "pando/backends/cpu/fused/fused_kernel.hpp"
#include "pando/backends/cpu/kernel_table.hpp"
#include "pando/base/band.hpp"

namespace pando::cpu {

/// What is known of matrices of a product: see the op MatMul.
struct MatMulBands {
  std::optional<Band> lhs, rhs, out;

  bool any() const { return lhs || rhs || out; }
};

/// What a kernel does with parts of a product while they are in the cache.
struct MatMulEpilogue {
  /// Input 0 is the product. All operands stand after those of the product itself.
  std::shared_ptr<const FusedParts> parts;
  KernelSpec spec;  // of the program
  /// Its only output is the memory of the product.
  bool is_in_place = false;
};

/// out[b, m, n] = sum_k lhs[b, m, k] * rhs[b, k, n] + bias[n], then the epilogue. Strides in
/// elements.
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
  std::int64_t packed_right = 0;  // floats that make_packed_right made of the right matrix, or 0
  std::shared_ptr<const MatMulEpilogue> epilogue;  // or nullptr

  std::int64_t batch_count() const;
  std::size_t out_operand() const { return has_bias ? 3 : 2; }
  /// What finish() needs.
  std::size_t finish_scratch() const;
  /// Runs the epilogue on a part of the result whose sums are done. Rows are those of all products
  /// of the batch, one after the other.
  void finish(std::byte* const* operands, std::byte* scratch, const MatrixPart& part) const;
  /// Merges a batch that only lhs has into its rows (unless there are bands, which are of one
  /// product), and drops batch dimensions of size 1.
  void simplify();
};

/// Elements from the first product of a batch to product `index`, for `strides` of an operand.
std::int64_t batch_offset(const MatMulProblem& problem, const Strides& strides, std::int64_t index);

/// Fills in the problem, or returns why the spec is not one.
std::string parse_matmul(const KernelRequest& request, MatMulProblem& problem);

KernelPlan make_banded_matmul(const KernelRequest& request);
KernelPlan make_onednn_matmul(const KernelRequest& request);
KernelPlan make_packed_matmul(const KernelRequest& request);
KernelPlan make_skinny_matmul(const KernelRequest& request);
KernelPlan make_native_half_matmul(const KernelRequest& request);
KernelPlan make_half_matmul(const KernelRequest& request);
KernelPlan make_plain_matmul(const KernelRequest& request);

/// A right matrix that is worth packing once for many runs (KernelSpec::kPackedRight), and the
/// kernels that pack it and give it back.
std::optional<PreparedInput> packed_right(const KernelRequest& request);
KernelPlan make_packed_right(const KernelRequest& request);
KernelPlan make_unpacked_right(const KernelRequest& request);

/// What `plan`, one of those below, makes of the problem; only one reads packed matrices.
KernelPlan plan_product(KernelPlan (*plan)(const MatMulProblem&, int), const MatMulProblem& problem,
                        int num_threads);

// Products of half and single precision: of float32 only the banded ones. Those of oneDNN and the
// packed ones take any strides of the result.
KernelPlan plan_banded_matmul(const MatMulProblem& problem, int num_threads);
KernelPlan plan_onednn_matmul(const MatMulProblem& problem, int num_threads);
KernelPlan plan_packed_matmul(const MatMulProblem& problem, int num_threads);
KernelPlan plan_skinny_matmul(const MatMulProblem& problem, int num_threads);
KernelPlan plan_plain_matmul(const MatMulProblem& problem, int num_threads);  // of any dtype

/// The first of the plans above that takes a float32 problem without bands: for products inside of
/// other kernels.
KernelPlan plan_float32_matmul(const MatMulProblem& problem, int num_threads);

}  // namespace pando::cpu
