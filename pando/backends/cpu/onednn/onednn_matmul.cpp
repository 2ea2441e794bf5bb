#include <algorithm>
#include <array>

#include "pando/backends/cpu/kernels/matmul.hpp"
#include "pando/backends/cpu/onednn/onednn.hpp"
#include "pando/base/error.hpp"

namespace pando::cpu {
namespace {

using dnnl::memory;

dnnl::post_ops epilogue_post_ops(const std::string& epilogue) {
  using dnnl::algorithm;
  dnnl::post_ops ops;
  if (epilogue == "relu") ops.append_eltwise(algorithm::eltwise_relu, 0.f, 0.f);
  if (epilogue == "tanh") ops.append_eltwise(algorithm::eltwise_tanh, 0.f, 0.f);
  if (epilogue == "sigmoid") ops.append_eltwise(algorithm::eltwise_logistic, 0.f, 0.f);
  if (epilogue == "swish") ops.append_eltwise(algorithm::eltwise_swish, 1.f, 0.f);
  if (epilogue == "gelu_tanh") ops.append_eltwise(algorithm::eltwise_gelu_tanh, 0.f, 0.f);
  if (epilogue == "gelu_erf") ops.append_eltwise(algorithm::eltwise_gelu_erf, 0.f, 0.f);
  return ops;
}

/// Dimensions broadcast with stride 0 have size 1 for oneDNN.
memory::desc matrix_desc(const Shape& batch, const Strides& batch_strides, std::int64_t rows,
                         std::int64_t columns, std::int64_t row_stride,
                         std::int64_t column_stride) {
  Shape shape;
  Strides strides;
  const std::int64_t matrix = rows * columns;
  for (std::size_t d = 0; d < batch.size(); ++d) {
    const bool repeated = batch_strides[d] == 0;
    shape.push_back(repeated ? 1 : batch[d]);
    strides.push_back(repeated ? matrix : batch_strides[d]);
  }
  shape.insert(shape.end(), {rows, columns});
  strides.insert(strides.end(), {row_stride, column_stride});
  return onednn_f32(shape, strides);
}

}  // namespace

KernelPlan plan_onednn_matmul(const MatMulProblem& problem, int num_threads) {
  const MatMulProblem& p = problem;
  if (p.m * p.n * p.k * p.batch_count() == 0) return KernelPlan::reject("empty product");
  if (p.batch.size() > 4) return KernelPlan::reject("more than 4 batch dimensions");
  const auto negative = [](std::int64_t stride) { return stride < 0; };
  if (std::any_of(p.lhs_batch.begin(), p.lhs_batch.end(), negative) ||
      std::any_of(p.rhs_batch.begin(), p.rhs_batch.end(), negative)) {
    return KernelPlan::reject("a batch that runs backwards");
  }
  if ((p.lhs_row != 1 && p.lhs_column != 1) || (p.rhs_row != 1 && p.rhs_column != 1)) {
    return KernelPlan::reject("no unit stride in the last two dimensions");
  }
  Shape out_shape = p.batch;
  out_shape.insert(out_shape.end(), {p.m, p.n});
  const memory::desc lhs = matrix_desc(p.batch, p.lhs_batch, p.m, p.k, p.lhs_row, p.lhs_column);
  const memory::desc rhs = matrix_desc(p.batch, p.rhs_batch, p.k, p.n, p.rhs_row, p.rhs_column);
  const memory::desc out = onednn_f32(out_shape);
  Shape bias_shape(p.batch.size() + 1, 1);
  bias_shape.push_back(p.n);
  const memory::desc bias = onednn_f32(bias_shape);

  const OmpThreads threads(num_threads);
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  attributes.set_post_ops(epilogue_post_ops(p.epilogue));
  try {
    const dnnl::engine& engine = onednn_engine();
    const dnnl::matmul::primitive_desc desc =
        p.has_bias ? dnnl::matmul::primitive_desc(engine, lhs, rhs, bias, out, attributes)
                   : dnnl::matmul::primitive_desc(engine, lhs, rhs, out, attributes);
    std::vector<OnednnPrimitive::Argument> arguments = {{DNNL_ARG_SRC, lhs},
                                                        {DNNL_ARG_WEIGHTS, rhs}};
    if (p.has_bias) arguments.push_back({DNNL_ARG_BIAS, bias});
    arguments.push_back({DNNL_ARG_DST, out});
    arguments.push_back({DNNL_ARG_SCRATCHPAD, desc.scratchpad_desc()});
    const auto primitive =
        std::make_shared<OnednnPrimitive>(dnnl::matmul(desc), std::move(arguments), num_threads);
    KernelPlan plan;
    plan.detail = desc.impl_info_str();
    plan.scratch_bytes = desc.scratchpad_desc().get_size();
    const std::size_t count = p.has_bias ? 4 : 3;
    plan.run = [primitive, count](std::byte* const* operands, std::byte* scratch) {
      std::array<void*, 5> pointers{};
      for (std::size_t i = 0; i < count; ++i) pointers[i] = operands[i];
      pointers[count] = scratch;
      primitive->run(pointers.data());
    };
    return plan;
  } catch (const dnnl::error& error) {
    return KernelPlan::reject(str_cat("oneDNN: ", error.what()));
  }
}

}  // namespace pando::cpu
