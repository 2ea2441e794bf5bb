#include <algorithm>
#include <array>

#include "pando/backends/cpu/kernels/conv.hpp"
#include "pando/backends/cpu/onednn/onednn.hpp"
#include "pando/backends/cpu/parallel.hpp"
#include "pando/base/error.hpp"

namespace pando::cpu {
namespace {

using dnnl::memory;

/// An operand in the layout of the program and in the one the primitive wants.
struct ConvOperand {
  memory::desc plain, wanted;
  std::size_t scratch_offset = 0;
  std::unique_ptr<OnednnPrimitive> reorder;  // nullptr when the layouts agree
};

struct OnednnConv {
  std::array<ConvOperand, 3> operands;  // two inputs, one output
  std::unique_ptr<OnednnPrimitive> primitive;
  std::size_t scratchpad_offset = 0;

  void run(std::byte* const* pointers, std::byte* scratch) const {
    std::array<void*, 4> used{};
    for (std::size_t i = 0; i < 3; ++i) {
      const ConvOperand& operand = operands[i];
      used[i] = operand.reorder ? scratch + operand.scratch_offset : pointers[i];
      if (operand.reorder && i < 2) {
        void* const both[] = {pointers[i], used[i]};
        operand.reorder->run(both);
      }
    }
    used[3] = scratch + scratchpad_offset;
    primitive->run(used.data());
    if (operands[2].reorder) {
      void* const both[] = {used[2], pointers[2]};
      operands[2].reorder->run(both);
    }
  }
};

struct ConvDescs {
  memory::desc data, weights, result;  // as in the program
  // The layout is left to oneDNN; with channels last only that of the weights.
  memory::desc any_data, any_weights, any_result;
  memory::dims strides, dilations, pad_begin, pad_end;

  explicit ConvDescs(const ConvProblem& p) {
    Shape weights_shape = p.weights;
    if (p.groups > 1) {
      weights_shape[0] /= p.groups;
      weights_shape.insert(weights_shape.begin(), p.groups);
    }
    data = image(p, p.data);
    weights = onednn_f32(weights_shape);
    result = image(p, p.result);
    any_data = p.channel_last ? data : any(p.data);
    any_weights = any(weights_shape);
    any_result = p.channel_last ? result : any(p.result);
    const auto rank = static_cast<std::ptrdiff_t>(p.spatial_rank());
    strides = p.strides;
    for (const std::int64_t dilation : p.dilations) dilations.push_back(dilation - 1);
    pad_begin.assign(p.pads.begin(), p.pads.begin() + rank);
    pad_end.assign(p.pads.begin() + rank, p.pads.end());
  }
  static memory::desc image(const ConvProblem& p, const Shape& shape) {
    if (!p.channel_last) return onednn_f32(shape);
    Shape memory_shape = shape;
    std::rotate(memory_shape.begin() + 1, memory_shape.begin() + 2, memory_shape.end());
    Strides strides = contiguous_strides(memory_shape);
    std::rotate(strides.begin() + 1, strides.end() - 1, strides.end());
    return onednn_f32(shape, strides);
  }
  static memory::desc any(const Shape& shape) {
    return memory::desc(memory::dims(shape.begin(), shape.end()), memory::data_type::f32,
                        memory::format_tag::any);
  }
};

dnnl::convolution_forward::primitive_desc forward_desc(const ConvDescs& d, bool training) {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  const auto kind =
      training ? dnnl::prop_kind::forward_training : dnnl::prop_kind::forward_inference;
  return {onednn_engine(), kind,          dnnl::algorithm::convolution_direct,
          d.any_data,      d.any_weights, d.any_result,
          d.strides,       d.dilations,   d.pad_begin,
          d.pad_end,       attributes};
}

std::unique_ptr<OnednnPrimitive> reorder_of(const memory::desc& from, const memory::desc& to) {
  const dnnl::engine& engine = onednn_engine();
  const dnnl::reorder::primitive_desc desc(engine, from, engine, to);
  return std::make_unique<OnednnPrimitive>(
      dnnl::reorder(desc),
      std::vector<OnednnPrimitive::Argument>{{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}});
}

/// Builds reorders and lays out the scratch. `arguments`: DNNL_ARG_* of the two inputs and the
/// output.
KernelPlan finish(std::shared_ptr<OnednnConv> conv, const dnnl::primitive& primitive,
                  const memory::desc& scratchpad, const std::array<int, 3>& arguments,
                  const std::string& implementation) {
  KernelPlan plan;
  std::vector<OnednnPrimitive::Argument> list;
  plan.detail = implementation;
  for (std::size_t i = 0; i < 3; ++i) {
    ConvOperand& operand = conv->operands[i];
    list.push_back({arguments[i], operand.wanted});
    if (operand.plain == operand.wanted) continue;
    operand.reorder = i < 2 ? reorder_of(operand.plain, operand.wanted)
                            : reorder_of(operand.wanted, operand.plain);
    operand.scratch_offset = plan.scratch_bytes;
    plan.scratch_bytes += scratch_aligned(operand.wanted.get_size());
    plan.detail += str_cat(", operand ", i, " reordered");
  }
  list.push_back({DNNL_ARG_SCRATCHPAD, scratchpad});
  conv->scratchpad_offset = plan.scratch_bytes;
  plan.scratch_bytes += scratchpad.get_size();
  conv->primitive = std::make_unique<OnednnPrimitive>(primitive, std::move(list));
  plan.run = [conv = std::shared_ptr<const OnednnConv>(std::move(conv))](
                 std::byte* const* operands, std::byte* scratch) { conv->run(operands, scratch); };
  return plan;
}

template <ConvPass Pass>
KernelPlan plan_samples(const ConvProblem& problem) {
  const SingleThreaded single;
  const ConvDescs d(problem);
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  auto conv = std::make_shared<OnednnConv>();
  const auto forward = forward_desc(d, Pass != ConvPass::Forward);
  const auto algorithm = dnnl::algorithm::convolution_direct;
  if constexpr (Pass == ConvPass::Forward) {
    conv->operands[0].plain = d.data;
    conv->operands[0].wanted = forward.src_desc();
    conv->operands[1].plain = d.weights;
    conv->operands[1].wanted = forward.weights_desc();
    conv->operands[2].plain = d.result;
    conv->operands[2].wanted = forward.dst_desc();
    return finish(conv, dnnl::convolution_forward(forward), forward.scratchpad_desc(),
                  {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST}, forward.impl_info_str());
  } else if constexpr (Pass == ConvPass::Data) {
    const dnnl::convolution_backward_data::primitive_desc desc(
        onednn_engine(), algorithm, d.any_data, d.any_weights, d.any_result, d.strides, d.dilations,
        d.pad_begin, d.pad_end, forward, attributes);
    conv->operands[0].plain = d.weights;
    conv->operands[0].wanted = desc.weights_desc();
    conv->operands[1].plain = d.result;
    conv->operands[1].wanted = desc.diff_dst_desc();
    conv->operands[2].plain = d.data;
    conv->operands[2].wanted = desc.diff_src_desc();
    return finish(conv, dnnl::convolution_backward_data(desc), desc.scratchpad_desc(),
                  {DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_DST, DNNL_ARG_DIFF_SRC}, desc.impl_info_str());
  } else {
    const dnnl::convolution_backward_weights::primitive_desc desc(
        onednn_engine(), algorithm, d.any_data, d.any_weights, d.any_result, d.strides, d.dilations,
        d.pad_begin, d.pad_end, forward, attributes);
    conv->operands[0].plain = d.data;
    conv->operands[0].wanted = desc.src_desc();
    conv->operands[1].plain = d.result;
    conv->operands[1].wanted = desc.diff_dst_desc();
    conv->operands[2].plain = d.weights;
    conv->operands[2].wanted = desc.diff_weights_desc();
    return finish(conv, dnnl::convolution_backward_weights(desc), desc.scratchpad_desc(),
                  {DNNL_ARG_SRC, DNNL_ARG_DIFF_DST, DNNL_ARG_DIFF_WEIGHTS}, desc.impl_info_str());
  }
}

/// The samples of the batch are cut into parts; gradients of the weights are summed at the end.
struct ConvParts {
  struct Part {
    KernelPlan plan;
    std::int64_t first_sample = 0;
    std::size_t scratch = 0;
    std::size_t sum = 0;  // scratch for the gradient of the weights
  };
  std::vector<Part> parts;
  // Elements of a sample in each operand; 0: all parts share it.
  std::array<std::int64_t, 3> sample{};
  std::int64_t weights = 0;
  int num_threads = 1;
  bool sums = false;

  void operator()(std::byte* const* operands, std::byte* scratch) const {
    const auto count = static_cast<std::int64_t>(parts.size());
    parallel_for(num_threads, count, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const Part& part = parts[static_cast<std::size_t>(i)];
        std::array<std::byte*, 3> pointers{};
        for (std::size_t k = 0; k < 3; ++k) {
          const std::int64_t elements = part.first_sample * sample[k];
          pointers[k] = operands[k] + elements * static_cast<std::int64_t>(sizeof(float));
        }
        if (sums && i > 0) pointers[2] = scratch + part.sum;
        part.plan.run(pointers.data(), scratch + part.scratch);
      }
    });
    if (sums) add_up(reinterpret_cast<float*>(operands[2]), scratch);
  }

  void add_up(float* total, std::byte* scratch) const {
    for (std::size_t i = 1; i < parts.size(); ++i) {
      const auto* part = reinterpret_cast<const float*>(scratch + parts[i].sum);
      for (std::int64_t k = 0; k < weights; ++k) total[k] += part[k];
    }
  }
};

template <ConvPass Pass>
KernelPlan plan_conv(const ConvProblem& problem, int num_threads) {
  const std::int64_t samples = problem.data[0];
  const auto per_sample = [&](const Shape& shape) { return num_elements(shape) / samples; };
  ConvParts conv;
  conv.num_threads = num_threads;
  conv.weights = num_elements(problem.weights);
  conv.sums = Pass == ConvPass::Weights;
  const std::int64_t data = per_sample(problem.data), result = per_sample(problem.result);
  if (Pass == ConvPass::Forward) conv.sample = {data, 0, result};
  if (Pass == ConvPass::Data) conv.sample = {0, result, data};
  if (Pass == ConvPass::Weights) conv.sample = {data, result, 0};
  const std::int64_t count = std::min<std::int64_t>(num_threads, samples);
  KernelPlan plan;
  for (std::int64_t i = 0; i < count; ++i) {
    ConvParts::Part part;
    part.first_sample = samples * i / count;
    ConvProblem piece = problem;
    piece.data[0] = piece.result[0] = samples * (i + 1) / count - part.first_sample;
    part.plan = plan_samples<Pass>(piece);
    part.scratch = plan.scratch_bytes;
    plan.scratch_bytes += scratch_aligned(part.plan.scratch_bytes);
    part.sum = plan.scratch_bytes;
    if (conv.sums && i > 0) {
      plan.scratch_bytes += scratch_aligned(static_cast<std::size_t>(conv.weights) * sizeof(float));
    }
    conv.parts.push_back(std::move(part));
  }
  plan.detail = conv.parts.front().plan.detail;
  plan.run = std::move(conv);
  return plan;
}

}  // namespace

template <ConvPass Pass>
KernelPlan make_onednn_conv(const KernelRequest& request) {
  ConvProblem problem;
  if (std::string fault = parse_conv(request, Pass, problem); !fault.empty()) {
    return KernelPlan::reject(fault);
  }
  if (problem.dtype != DType::Float32) return KernelPlan::reject("only float32");
  if (num_elements(problem.data) * num_elements(problem.weights) * num_elements(problem.result) ==
      0) {
    return KernelPlan::reject("empty operand");
  }
  try {
    return plan_conv<Pass>(problem, request.num_threads);
  } catch (const dnnl::error& error) {
    return KernelPlan::reject(str_cat("oneDNN: ", error.what()));
  }
}

template KernelPlan make_onednn_conv<ConvPass::Forward>(const KernelRequest& request);
template KernelPlan make_onednn_conv<ConvPass::Data>(const KernelRequest& request);
template KernelPlan make_onednn_conv<ConvPass::Weights>(const KernelRequest& request);

}  // namespace pando::cpu
