#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pando/backends/cpu/kernels/conv.hpp"
#include "pando/backends/cpu/onednn/onednn.hpp"
#include "pando/backends/cpu/parallel.hpp"
#include "pando/base/error.hpp"

namespace pando::cpu {
namespace {

using dnnl::memory;

struct ConvOperand {
  std::size_t scratch_offset = 0;            // of it as the primitive wants it
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

  /// `whole`: what `p` is a part of, in whose images those of `p` lie.
  ConvDescs(const ConvProblem& p, const ConvProblem& whole) {
    Shape weights_shape = p.weights;
    if (p.groups > 1) {
      weights_shape[0] /= p.groups;
      weights_shape.insert(weights_shape.begin(), p.groups);
    }
    data = image(p, p.data, whole.data);
    weights = onednn_f32(weights_shape);
    result = image(p, p.result, whole.result);
    any_data = p.channel_last ? data : any(p.data);
    any_weights = any(weights_shape);
    any_result = p.channel_last ? result : any(p.result);
    const auto rank = static_cast<std::ptrdiff_t>(p.spatial_rank());
    strides = p.strides;
    for (const std::int64_t dilation : p.dilations) dilations.push_back(dilation - 1);
    pad_begin.assign(p.pads.begin(), p.pads.begin() + rank);
    pad_end.assign(p.pads.begin() + rank, p.pads.end());
  }
  /// With channels last the rows of one sample, and the samples, follow each other without gaps.
  static memory::desc image(const ConvProblem& p, const Shape& shape, const Shape& whole) {
    if (!p.channel_last) return onednn_f32(shape, contiguous_strides(whole));
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

/// What oneDNN would run, with operands in the order of the kernel.
struct ConvPrimitive {
  dnnl::primitive_desc desc;
  std::array<memory::desc, 3> plain, wanted;
  std::array<int, 3> arguments;  // DNNL_ARG_*
};

template <ConvPass Pass>
ConvPrimitive describe_primitive(const ConvDescs& d) {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  const auto forward = forward_desc(d, Pass != ConvPass::Forward);
  const auto algorithm = dnnl::algorithm::convolution_direct;
  if constexpr (Pass == ConvPass::Forward) {
    return {forward,
            {d.data, d.weights, d.result},
            {forward.src_desc(), forward.weights_desc(), forward.dst_desc()},
            {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST}};
  } else if constexpr (Pass == ConvPass::Data) {
    const dnnl::convolution_backward_data::primitive_desc desc(
        onednn_engine(), algorithm, d.any_data, d.any_weights, d.any_result, d.strides, d.dilations,
        d.pad_begin, d.pad_end, forward, attributes);
    return {desc,
            {d.weights, d.result, d.data},
            {desc.weights_desc(), desc.diff_dst_desc(), desc.diff_src_desc()},
            {DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_DST, DNNL_ARG_DIFF_SRC}};
  } else {
    const dnnl::convolution_backward_weights::primitive_desc desc(
        onednn_engine(), algorithm, d.any_data, d.any_weights, d.any_result, d.strides, d.dilations,
        d.pad_begin, d.pad_end, forward, attributes);
    return {desc,
            {d.data, d.result, d.weights},
            {desc.src_desc(), desc.diff_dst_desc(), desc.diff_weights_desc()},
            {DNNL_ARG_SRC, DNNL_ARG_DIFF_DST, DNNL_ARG_DIFF_WEIGHTS}};
  }
}

/// The primitive for a part of `whole`, with reorders around it, for one thread.
template <ConvPass Pass>
KernelPlan plan_part(const ConvProblem& problem, const ConvProblem& whole) {
  const SingleThreaded single;
  const ConvPrimitive made = describe_primitive<Pass>(ConvDescs(problem, whole));
  auto conv = std::make_shared<OnednnConv>();
  KernelPlan plan;
  std::vector<OnednnPrimitive::Argument> list;
  plan.detail = made.desc.impl_info_str();
  for (std::size_t i = 0; i < 3; ++i) {
    ConvOperand& operand = conv->operands[i];
    list.push_back({made.arguments[i], made.wanted[i]});
    if (made.plain[i] == made.wanted[i]) continue;
    operand.reorder = i < 2 ? reorder_of(made.plain[i], made.wanted[i])
                            : reorder_of(made.wanted[i], made.plain[i]);
    operand.scratch_offset = plan.scratch_bytes;
    plan.scratch_bytes += scratch_aligned(made.wanted[i].get_size());
    plan.detail += str_cat(", operand ", i, " reordered");
  }
  list.push_back({DNNL_ARG_SCRATCHPAD, made.desc.scratchpad_desc()});
  conv->scratchpad_offset = plan.scratch_bytes;
  plan.scratch_bytes += list.back().desc.get_size();
  conv->primitive = std::make_unique<OnednnPrimitive>(dnnl::primitive(made.desc), std::move(list));
  plan.run = [conv = std::shared_ptr<const OnednnConv>(std::move(conv))](
                 std::byte* const* operands, std::byte* scratch) { conv->run(operands, scratch); };
  return plan;
}

/// The work is cut into parts of the batch, or of the rows of each sample; gradients of the weights
/// are summed at the end.
struct ConvParts {
  struct Part {
    KernelPlan plan;
    std::array<std::int64_t, 3> first{};  // element of each operand
    std::size_t scratch = 0;
    std::size_t sum = 0;  // scratch for the gradient of the weights
  };
  std::vector<Part> parts;
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
          pointers[k] = operands[k] + part.first[k] * static_cast<std::int64_t>(sizeof(float));
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

/// A part of a convolution as one of its own, and where its images begin.
struct ConvPiece {
  ConvProblem problem;
  std::int64_t first_data = 0, first_result = 0;  // elements
};

std::vector<ConvPiece> pieces_of_batch(const ConvProblem& problem, std::int64_t count) {
  const std::int64_t samples = problem.data[0];
  std::vector<ConvPiece> pieces;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t first = samples * i / count;
    ConvPiece& piece = pieces.emplace_back();
    piece.problem = problem;
    piece.problem.data[0] = piece.problem.result[0] = samples * (i + 1) / count - first;
    piece.first_data = first * (num_elements(problem.data) / samples);
    piece.first_result = first * (num_elements(problem.result) / samples);
  }
  return pieces;
}

/// Rows [begin, end) of the result of one sample; nothing if they see padding only.
std::optional<ConvPiece> piece_of_rows(const ConvProblem& problem, std::int64_t sample,
                                       std::int64_t begin, std::int64_t end) {
  constexpr std::size_t kRows = 2;
  const std::size_t rank = problem.spatial_rank();
  const std::int64_t rows = problem.data[kRows];
  const std::int64_t extent = (problem.weights[kRows] - 1) * problem.dilations[0] + 1;
  const std::int64_t first = begin * problem.strides[0] - problem.pads[0];
  const std::int64_t last = (end - 1) * problem.strides[0] - problem.pads[0] + extent;
  const std::int64_t seen = std::max<std::int64_t>(first, 0), seen_end = std::min(last, rows);
  if (seen >= seen_end) return std::nullopt;
  ConvPiece piece{problem};
  piece.problem.data[0] = piece.problem.result[0] = 1;
  piece.problem.data[kRows] = seen_end - seen;
  piece.problem.result[kRows] = end - begin;
  piece.problem.pads[0] = seen - first;
  piece.problem.pads[rank] = last - seen_end;
  const auto elements_before = [&](const Shape& image, std::int64_t row) {
    const std::int64_t channels = problem.channel_last ? image[1] : 1;
    const Shape inner(image.begin() + kRows + 1, image.end());
    return sample * num_elements(Shape(image.begin() + 1, image.end())) +
           row * num_elements(inner) * channels;
  };
  piece.first_data = elements_before(problem.data, seen);
  piece.first_result = elements_before(problem.result, begin);
  return piece;
}

/// Multiplications below which another thread costs more than it saves.
constexpr std::int64_t kLeastPartWork = std::int64_t{1} << 18;

/// For fewer samples than threads; empty where rows cannot be cut.
std::vector<ConvPiece> pieces_of_rows(const ConvProblem& problem, int num_threads) {
  const std::int64_t samples = problem.data[0], rows = problem.result[2];
  const std::int64_t work =
      num_elements(problem.result) / problem.result[1] * num_elements(problem.weights);
  const std::int64_t count = std::min(
      {num_threads / samples, rows, std::max<std::int64_t>(1, work / samples / kLeastPartWork)});
  std::vector<ConvPiece> pieces;
  for (std::int64_t i = 0; i < samples * count && count > 1; ++i) {
    const std::int64_t part = i % count;
    const auto piece =
        piece_of_rows(problem, i / count, rows * part / count, rows * (part + 1) / count);
    if (!piece) return {};
    pieces.push_back(*piece);
  }
  return pieces;
}

template <ConvPass Pass>
KernelPlan plan_conv(const ConvProblem& problem, int num_threads) {
  ConvParts conv;
  conv.num_threads = num_threads;
  conv.weights = num_elements(problem.weights);
  conv.sums = Pass == ConvPass::Weights;
  std::vector<ConvPiece> pieces;
  if (Pass == ConvPass::Forward) pieces = pieces_of_rows(problem, num_threads);
  const bool by_rows = !pieces.empty();
  if (!by_rows) {
    pieces = pieces_of_batch(problem, std::min<std::int64_t>(num_threads, problem.data[0]));
  }
  KernelPlan plan;
  for (const ConvPiece& piece : pieces) {
    ConvParts::Part part;
    const std::int64_t data = piece.first_data, result = piece.first_result;
    if (Pass == ConvPass::Forward) part.first = {data, 0, result};
    if (Pass == ConvPass::Data) part.first = {0, result, data};
    if (Pass == ConvPass::Weights) part.first = {data, result, 0};
    part.plan = plan_part<Pass>(piece.problem, problem);
    part.scratch = plan.scratch_bytes;
    plan.scratch_bytes += scratch_aligned(part.plan.scratch_bytes);
    part.sum = plan.scratch_bytes;
    if (conv.sums && !conv.parts.empty()) {
      plan.scratch_bytes += scratch_aligned(static_cast<std::size_t>(conv.weights) * sizeof(float));
    }
    conv.parts.push_back(std::move(part));
  }
  plan.detail = conv.parts.front().plan.detail;
  if (by_rows) plan.detail += str_cat(", ", pieces.size(), " parts of rows");
  plan.run = std::move(conv);
  return plan;
}

/// The problem that oneDNN is asked to solve, or why it is not.
template <ConvPass Pass>
std::string parse_onednn_conv(const KernelRequest& request, ConvProblem& problem) {
  if (std::string fault = parse_conv(request, Pass, problem); !fault.empty()) return fault;
  if (problem.dtype != DType::Float32) return "only float32";
  const bool is_empty =
      num_elements(problem.data) * num_elements(problem.weights) * num_elements(problem.result) ==
      0;
  return is_empty ? "empty operand" : "";
}

/// Whether the primitive, which has its images with channels last, is one written for them.
bool is_fast_with_channels_last(const ConvPrimitive& primitive) {
  const std::string_view name = primitive.desc.impl_info_str();
  return !name.starts_with("ref") && name.find("gemm") == std::string_view::npos;
}

}  // namespace

template <ConvPass Pass>
KernelPlan make_onednn_conv(const KernelRequest& request) {
  ConvProblem problem;
  if (std::string fault = parse_onednn_conv<Pass>(request, problem); !fault.empty()) {
    return KernelPlan::reject(fault);
  }
  try {
    return plan_conv<Pass>(problem, request.num_threads);
  } catch (const dnnl::error& error) {
    return KernelPlan::reject(str_cat("oneDNN: ", error.what()));
  }
}

template <ConvPass Pass>
std::vector<std::int32_t> onednn_reordered_images(const KernelRequest& request) {
  constexpr std::size_t kWeights = Pass == ConvPass::Forward ? 1 : Pass == ConvPass::Data ? 0 : 2;
  ConvProblem problem;
  if (!parse_onednn_conv<Pass>(request, problem).empty()) return {};
  std::vector<std::int32_t> reordered;
  try {
    const SingleThreaded single;
    const ConvPrimitive first = describe_primitive<Pass>(ConvDescs(problem, problem));
    problem.channel_last = true;
    const ConvDescs last(problem, problem);
    if (!is_fast_with_channels_last(describe_primitive<Pass>(last))) return {};
    for (std::size_t i = 0; i < 3; ++i) {
      const bool is_reordered = i != kWeights && first.plain[i] != first.wanted[i];
      if (is_reordered) reordered.push_back(static_cast<std::int32_t>(i));
    }
  } catch (const dnnl::error&) {
    return {};
  }
  return reordered;
}

template KernelPlan make_onednn_conv<ConvPass::Forward>(const KernelRequest& request);
template KernelPlan make_onednn_conv<ConvPass::Data>(const KernelRequest& request);
template KernelPlan make_onednn_conv<ConvPass::Weights>(const KernelRequest& request);
template std::vector<std::int32_t> onednn_reordered_images<ConvPass::Forward>(
    const KernelRequest& request);
template std::vector<std::int32_t> onednn_reordered_images<ConvPass::Data>(
    const KernelRequest& request);
template std::vector<std::int32_t> onednn_reordered_images<ConvPass::Weights>(
    const KernelRequest& request);

}  // namespace pando::cpu
