#include "pando/backends/cpu/kernels/matmul.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <type_traits>

#include "pando/backends/cpu/kernels/element.hpp"
#include "pando/backends/cpu/parallel.hpp"
#include "pando/base/error.hpp"

namespace pando::cpu {
namespace {

/// Elements between the first and the last one touched, plus one.
std::int64_t extent(const OperandDesc& operand) {
  std::int64_t last = 0;
  for (std::size_t i = 0; i < operand.shape.size(); ++i) {
    if (operand.shape[i] == 0) return 0;
    last += (operand.shape[i] - 1) * std::abs(operand.strides[i]);
  }
  return last + 1;
}

template <class T>
void plain_rows(const MatMulProblem& p, const T* lhs, const T* rhs, const T* bias, T* out,
                std::int64_t row_begin, std::int64_t row_end) {
  // Integers wrap: accumulate unsigned, where overflow is defined.
  using Acc = typename std::conditional_t<std::is_integral_v<T>, std::make_unsigned<T>,
                                          std::type_identity<Compute<T>>>::type;
  constexpr std::int64_t kColumns = 64;
  Acc acc[kColumns];
  for (std::int64_t row = row_begin; row < row_end; ++row) {
    for (std::int64_t n0 = 0; n0 < p.n; n0 += kColumns) {
      const std::int64_t count = std::min(kColumns, p.n - n0);
      for (std::int64_t j = 0; j < count; ++j) {
        acc[j] = bias != nullptr ? static_cast<Acc>(bias[n0 + j]) : Acc(0);
      }
      for (std::int64_t k = 0; k < p.k; ++k) {
        const Acc a = static_cast<Acc>(lhs[row * p.lhs_row + k * p.lhs_column]);
        const T* b = rhs + k * p.rhs_row + n0 * p.rhs_column;
        if (p.rhs_column == 1) {
          for (std::int64_t j = 0; j < count; ++j) acc[j] += a * static_cast<Acc>(b[j]);
        } else {
          for (std::int64_t j = 0; j < count; ++j) {
            acc[j] += a * static_cast<Acc>(b[j * p.rhs_column]);
          }
        }
      }
      for (std::int64_t j = 0; j < count; ++j) {
        out[row * p.n + n0 + j] = static_cast<T>(acc[j]);
      }
    }
  }
}

struct HalfMatMul {
  MatMulProblem problem;  // in float32
  DType format;
  KernelPlan inner;
  std::int64_t lhs_count, rhs_count, out_count;
  std::size_t lhs_at, rhs_at, bias_at, out_at, inner_at;
  int num_threads;

  void convert(const std::byte* from, float* to, std::int64_t count) const {
    const auto* source = reinterpret_cast<const std::uint16_t*>(from);
    parallel_for(num_threads, count, 1 << 15, [&](std::int64_t begin, std::int64_t end) {
      half_precision_to_floats(format, source + begin, to + begin,
                               static_cast<std::size_t>(end - begin));
    });
  }

  void operator()(std::byte* const* operands, std::byte* scratch) const {
    auto* lhs = reinterpret_cast<float*>(scratch + lhs_at);
    auto* rhs = reinterpret_cast<float*>(scratch + rhs_at);
    auto* bias = reinterpret_cast<float*>(scratch + bias_at);
    auto* out = reinterpret_cast<float*>(scratch + out_at);
    convert(operands[0], lhs, lhs_count);
    convert(operands[1], rhs, rhs_count);
    if (problem.has_bias) convert(operands[2], bias, problem.n);
    std::byte* floats[4] = {};
    std::size_t count = 0;
    floats[count++] = reinterpret_cast<std::byte*>(lhs);
    floats[count++] = reinterpret_cast<std::byte*>(rhs);
    if (problem.has_bias) floats[count++] = reinterpret_cast<std::byte*>(bias);
    floats[count] = reinterpret_cast<std::byte*>(out);
    inner.run(floats, scratch + inner_at);
    auto* target = reinterpret_cast<std::uint16_t*>(operands[problem.has_bias ? 3 : 2]);
    parallel_for(num_threads, out_count, 1 << 15, [&](std::int64_t begin, std::int64_t end) {
      floats_to_half_precision(format, out + begin, target + begin,
                               static_cast<std::size_t>(end - begin));
    });
  }
};

MatMulBands bands_of(const KernelRequest& request) {
  const auto band = [&](const char* name) { return band_attribute(request.attributes(), name); };
  return {band("lhs_band"), band("rhs_band"), band("out_band")};
}

bool has_bands(const KernelRequest& request) { return bands_of(request).any(); }

bool is_of_half_precision(const KernelRequest& request) {
  return is_half_precision(request.output(0).dtype);
}

KernelPlan make_planned_matmul(const KernelRequest& request,
                               KernelPlan (*plan)(const MatMulProblem&, int)) {
  MatMulProblem problem;
  const std::string fault = parse_matmul(request, problem);
  return fault.empty() ? plan_product(plan, problem, request.num_threads)
                       : KernelPlan::reject(fault);
}

KernelPlan make_float32_matmul(const KernelRequest& request,
                               KernelPlan (*plan)(const MatMulProblem&, int)) {
  if (request.output(0).dtype != DType::Float32) return KernelPlan::reject("only float32");
  return make_planned_matmul(request, plan);
}

}  // namespace

std::int64_t batch_offset(const MatMulProblem& problem, const Strides& strides,
                          std::int64_t index) {
  std::int64_t offset = 0;
  for (std::size_t d = problem.batch.size(); d-- > 0;) {
    offset += index % problem.batch[d] * strides[d];
    index /= problem.batch[d];
  }
  return offset;
}

std::int64_t MatMulProblem::batch_count() const { return num_elements(batch); }

std::size_t MatMulProblem::finish_scratch() const {
  return epilogue == nullptr ? 0 : epilogue->parts->scratch_bytes();
}

void MatMulProblem::finish(std::byte* const* operands, std::byte* scratch,
                           const MatrixPart& part) const {
  if (epilogue == nullptr || part.rows == 0 || part.columns == 0) return;
  epilogue->parts->run_part(operands + out_operand() + 1, scratch, part);
}

void MatMulProblem::simplify() {
  for (std::size_t d = batch.size(); d-- > 0;) {
    if (batch[d] != 1) continue;
    batch.erase(batch.begin() + d);
    lhs_batch.erase(lhs_batch.begin() + d);
    rhs_batch.erase(rhs_batch.begin() + d);
  }
  // (..., B, M, K) x (K, N) with rows that continue across the batch is one taller product.
  while (!bands.any() && !batch.empty() && rhs_batch.back() == 0 &&
         lhs_batch.back() == m * lhs_row) {
    m *= batch.back();
    batch.pop_back();
    lhs_batch.pop_back();
    rhs_batch.pop_back();
  }
  for (std::size_t d = batch.size(); d-- > 1;) {
    if (lhs_batch[d - 1] != batch[d] * lhs_batch[d]) continue;
    if (rhs_batch[d - 1] != batch[d] * rhs_batch[d]) continue;
    batch[d - 1] *= batch[d];
    lhs_batch[d - 1] = lhs_batch[d];
    rhs_batch[d - 1] = rhs_batch[d];
    batch.erase(batch.begin() + d);
    lhs_batch.erase(lhs_batch.begin() + d);
    rhs_batch.erase(rhs_batch.begin() + d);
  }
}

KernelPlan plan_product(KernelPlan (*plan)(const MatMulProblem&, int), const MatMulProblem& problem,
                        int num_threads) {
  if (problem.packed_right > 0 && plan != plan_packed_matmul) {
    return KernelPlan::reject("the right matrix is packed");
  }
  return plan(problem, num_threads);
}

std::string parse_matmul(const KernelRequest& request, MatMulProblem& problem) {
  const OperandDesc& lhs = request.input(0);
  OperandDesc rhs = request.input(1);
  if (request.attributes().has(KernelSpec::kPackedRight)) {
    problem.packed_right = num_elements(rhs.shape);
    if (rhs.dtype != DType::Float32 || problem.packed_right == 0) {
      return "a packed matrix without float32 numbers";
    }
    rhs = OperandDesc::contiguous(rhs.dtype, request.attributes().ints(KernelSpec::kPackedRight));
  }
  const OperandDesc& out = request.output(0);
  const std::size_t rank = out.shape.size();
  if (rank < 2 || lhs.shape.size() != rank || rhs.shape.size() != rank) {
    return str_cat("operands must have one rank of at least 2, got ", operand_text(lhs), " and ",
                   operand_text(rhs), " for ", operand_text(out));
  }
  if (lhs.dtype != rhs.dtype || lhs.dtype != out.dtype) {
    return str_cat("dtypes differ: ", lhs.dtype, ", ", rhs.dtype, " and ", out.dtype);
  }
  problem.dtype = out.dtype;
  problem.m = out.shape[rank - 2];
  problem.n = out.shape[rank - 1];
  problem.k = lhs.shape[rank - 1];
  if (lhs.shape[rank - 2] != problem.m || rhs.shape[rank - 1] != problem.n ||
      rhs.shape[rank - 2] != problem.k || !out.is_contiguous()) {
    return "shapes do not form a product with a C-ordered result";
  }
  for (std::size_t d = 0; d + 2 < rank; ++d) {
    const std::int64_t size = out.shape[d];
    const bool fits =
        (lhs.shape[d] == size || lhs.shape[d] == 1) && (rhs.shape[d] == size || rhs.shape[d] == 1);
    if (!fits) return "batch dimensions do not broadcast to those of the result";
    problem.batch.push_back(size);
    problem.lhs_batch.push_back(lhs.shape[d] == 1 ? 0 : lhs.strides[d]);
    problem.rhs_batch.push_back(rhs.shape[d] == 1 ? 0 : rhs.strides[d]);
  }
  problem.lhs_row = lhs.strides[rank - 2];
  problem.lhs_column = lhs.strides[rank - 1];
  problem.rhs_row = rhs.strides[rank - 2];
  problem.rhs_column = rhs.strides[rank - 1];
  // The stride of a dimension of size 1 is free; give it the value that the fast paths expect.
  if (problem.n == 1) problem.rhs_column = problem.rhs_row == 1 ? problem.k : 1;
  if (problem.k == 1) problem.lhs_column = 1;
  if (problem.k == 1) problem.rhs_row = problem.rhs_column * problem.n;
  if (problem.m == 1 && problem.lhs_column != 1) problem.lhs_row = 1;
  if (problem.m == 1 && problem.lhs_column == 1) problem.lhs_row = problem.k;
  problem.has_bias = request.has_input(2);
  if (problem.has_bias &&
      (request.input(2).shape != Shape{problem.n} || request.input(2).dtype != problem.dtype)) {
    return str_cat("bias must be (", problem.n, ",) ", problem.dtype, ", got ",
                   operand_text(request.input(2)));
  }
  problem.bands = bands_of(request);
  problem.simplify();
  problem.out_row = problem.n;
  problem.out_product = problem.m * problem.n;
  return "";
}

KernelPlan make_skinny_matmul(const KernelRequest& request) {
  return make_planned_matmul(request, plan_skinny_matmul);
}

KernelPlan make_packed_matmul(const KernelRequest& request) {
  return make_planned_matmul(request, plan_packed_matmul);
}

KernelPlan make_banded_matmul(const KernelRequest& request) {
  return make_float32_matmul(request, plan_banded_matmul);
}

KernelPlan make_onednn_matmul(const KernelRequest& request) {
  return make_float32_matmul(request, plan_onednn_matmul);
}

KernelPlan make_native_half_matmul(const KernelRequest& request) {
  return make_planned_matmul(request, plan_onednn_matmul);
}

KernelPlan make_half_matmul(const KernelRequest& request) {
  HalfMatMul half;
  const std::string fault = parse_matmul(request, half.problem);
  if (!fault.empty()) return KernelPlan::reject(fault);
  MatMulProblem& problem = half.problem;
  half.format = problem.dtype;
  if (!is_half_precision(half.format)) return KernelPlan::reject("only float16 and bfloat16");
  if (problem.m * problem.n * problem.k * problem.batch_count() == 0) {
    return KernelPlan::reject("empty product");
  }
  problem.dtype = DType::Float32;
  for (const auto plan : {plan_skinny_matmul, plan_packed_matmul, plan_onednn_matmul}) {
    half.inner = plan(problem, request.num_threads);
    if (half.inner.rejection.empty()) break;
  }
  if (!half.inner.rejection.empty()) return KernelPlan::reject(half.inner.rejection);
  half.num_threads = request.num_threads;
  half.lhs_count = extent(request.input(0));
  half.rhs_count = extent(request.input(1));
  half.out_count = num_elements(request.output(0).shape);
  std::size_t at = 0;
  const auto segment = [&](std::int64_t floats) {
    const std::size_t begin = at;
    at += scratch_aligned(static_cast<std::size_t>(floats) * sizeof(float));
    return begin;
  };
  half.lhs_at = segment(half.lhs_count);
  half.rhs_at = segment(half.rhs_count);
  half.bias_at = segment(problem.has_bias ? problem.n : 0);
  half.out_at = segment(half.out_count);
  half.inner_at = at;
  KernelPlan plan;
  plan.scratch_bytes = at + half.inner.scratch_bytes;
  plan.detail = "float32 " + half.inner.detail;
  plan.run = std::move(half);
  return plan;
}

KernelPlan plan_plain_matmul(const MatMulProblem& problem, int num_threads) {
  if (problem.dtype == DType::Bool) return KernelPlan::reject(unsupported_dtype(problem.dtype));
  KernelPlan plan;
  plan.scratch_bytes = problem.finish_scratch() * static_cast<std::size_t>(num_threads);
  const bool known = dispatch_arithmetic(problem.dtype, [&]<class T>(T) {
    plan.run = [problem, num_threads](std::byte* const* operands, std::byte* scratch) {
      const T* lhs = operand_in<T>(operands, 0);
      const T* rhs = operand_in<T>(operands, 1);
      const T* bias = problem.has_bias ? operand_in<T>(operands, 2) : nullptr;
      T* out = operand_out<T>(operands, problem.out_operand());
      const std::int64_t grain =
          std::max<std::int64_t>(1, (1 << 14) / std::max<std::int64_t>(1, problem.n * problem.k));
      parallel_for(num_threads, problem.batch_count() * problem.m, grain,
                   [&](std::int64_t begin, std::int64_t end) {
                     for (std::int64_t row = begin; row < end;) {
                       const std::int64_t b = row / problem.m;
                       const std::int64_t first = row - b * problem.m;
                       const std::int64_t last = std::min(problem.m, first + end - row);
                       plain_rows<T>(problem, lhs + batch_offset(problem, problem.lhs_batch, b),
                                     rhs + batch_offset(problem, problem.rhs_batch, b), bias,
                                     out + b * problem.m * problem.n, first, last);
                       row += last - first;
                     }
                     problem.finish(operands,
                                    scratch + problem.finish_scratch() *
                                                  static_cast<std::size_t>(thread_index()),
                                    {begin, end - begin, 0, problem.n});
                   });
    };
  });
  return known ? plan : KernelPlan::reject(unsupported_dtype(problem.dtype));
}

KernelPlan make_plain_matmul(const KernelRequest& request) {
  return make_planned_matmul(request, plan_plain_matmul);
}

KernelPlan plan_float32_matmul(const MatMulProblem& problem, int num_threads) {
  for (const auto plan_one : {plan_skinny_matmul, plan_packed_matmul, plan_onednn_matmul}) {
    KernelPlan plan = plan_one(problem, num_threads);
    if (plan.rejection.empty()) return plan;
  }
  return plan_plain_matmul(problem, num_threads);
}

void register_matmul_kernels(KernelTable& table) {
  table["MatMul"] = {{{"banded", make_banded_matmul, has_bands},
                      {"skinny", make_skinny_matmul},
                      {"onednn of half precision", make_native_half_matmul, is_of_half_precision},
                      {"packed", make_packed_matmul},
                      {"onednn", make_onednn_matmul},
                      {"half precision through float32", make_half_matmul, is_of_half_precision},
                      {"plain", make_plain_matmul}},
                     AcceptedLayout::MatrixAnyOrder};
  table["MatMul"].prepared = packed_right;
  table["MatMulPackedRight"] = {.candidates = {{"packed", make_packed_right}},
                                .layout = AcceptedLayout::MatrixAnyOrder};
  table["MatMulUnpackedRight"] = {{{"packed", make_unpacked_right}}};
}

}  // namespace pando::cpu
