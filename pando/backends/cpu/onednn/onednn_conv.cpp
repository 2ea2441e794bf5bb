#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "pando/backends/cpu/kernels/conv.hpp"
#include "pando/backends/cpu/onednn/conv_primitive.hpp"
#include "pando/backends/cpu/onednn/conv_split.hpp"
#include "pando/backends/cpu/onednn/onednn.hpp"
#include "pando/backends/cpu/onednn/weights_reorder.hpp"
#include "pando/backends/cpu/parallel.hpp"
#include "pando/base/error.hpp"

namespace pando::cpu {
namespace {

using dnnl::memory;

/// A part of the work for one thread, with reorders of its images around it. Weights are in the
/// primitive's layout.
struct ConvPart {
  struct Operand {
    std::int64_t first = 0;                    // element of the program's operand
    std::size_t scratch = 0;                   // for it as the primitive wants it
    std::unique_ptr<OnednnPrimitive> reorder;  // nullptr when the layouts agree
  };
  std::array<Operand, 3> operands;  // two inputs, one output
  std::unique_ptr<OnednnPrimitive> primitive;
  std::size_t scratchpad = 0;
  std::size_t sum = 0;  // for the gradient of the weights, of all parts but the first

  void run(const std::array<std::byte*, 3>& pointers, std::byte* scratch) const {
    std::array<void*, 4> used{};
    for (std::size_t i = 0; i < 3; ++i) {
      const Operand& operand = operands[i];
      used[i] = operand.reorder ? scratch + operand.scratch : pointers[i];
      if (operand.reorder && i < 2) {
        void* const both[] = {pointers[i], used[i]};
        operand.reorder->run(both);
      }
    }
    used[3] = scratch + scratchpad;
    primitive->run(used.data());
    if (operands[2].reorder) {
      void* const both[] = {used[2], pointers[2]};
      operands[2].reorder->run(both);
    }
  }
};

/// The weights are brought into the layout that all parts have for them, or their gradients are
/// added up in it and brought back.
struct OnednnConv {
  std::vector<ConvPart> parts;
  std::size_t weights_operand = 0;
  std::optional<WeightsReorder> reorder;  // of the weights
  std::size_t weights_scratch = 0;
  std::int64_t weights_elements = 0;  // as the parts have them
  int num_threads = 1;
  bool sums = false;

  void operator()(std::byte* const* operands, std::byte* scratch) const {
    std::array<std::byte*, 3> used = {operands[0], operands[1], operands[2]};
    std::byte*& weights = used[weights_operand];
    if (reorder) weights = scratch + weights_scratch;
    if (reorder && !sums) reorder->run(operands[weights_operand], weights);
    const auto count = static_cast<std::int64_t>(parts.size());
    parallel_for(num_threads, count, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i)
        run_part(static_cast<std::size_t>(i), used, scratch);
    });
    if (!sums) return;
    if (count > 1) add_up(reinterpret_cast<float*>(weights), scratch);
    if (reorder) reorder->run(weights, operands[weights_operand]);
  }

  void run_part(std::size_t index, std::array<std::byte*, 3> pointers, std::byte* scratch) const {
    const ConvPart& part = parts[index];
    for (std::size_t k = 0; k < 3; ++k) {
      pointers[k] += part.operands[k].first * static_cast<std::int64_t>(sizeof(float));
    }
    if (sums && index > 0) pointers[weights_operand] = scratch + part.sum;
    part.run(pointers, scratch);
  }

  void add_up(float* total, std::byte* scratch) const {
    constexpr std::int64_t kGrain = std::int64_t{1} << 14;
    parallel_for(num_threads, weights_elements, kGrain, [&](std::int64_t begin, std::int64_t end) {
      for (std::size_t i = 1; i < parts.size(); ++i) {
        const auto* part = reinterpret_cast<const float*>(scratch + parts[i].sum);
        for (std::int64_t k = begin; k < end; ++k) total[k] += part[k];
      }
    });
  }
};

std::size_t take_scratch(KernelPlan& plan, std::size_t bytes) {
  const std::size_t at = plan.scratch_bytes;
  plan.scratch_bytes += scratch_aligned(bytes);
  return at;
}

ConvPart plan_part(const ConvPrimitive& made, const ConvProblem& problem,
                   std::size_t weights_operand, KernelPlan& plan) {
  ConvPart part;
  std::vector<OnednnPrimitive::Argument> list;
  for (std::size_t i = 0; i < 3; ++i) {
    list.push_back({made.arguments[i], made.wanted[i]});
    if (i == weights_operand || made.plain[i] == made.wanted[i]) continue;
    part.operands[i].reorder = i < 2 ? onednn_reorder(made.plain[i], made.wanted[i])
                                     : onednn_reorder(made.wanted[i], made.plain[i]);
    part.operands[i].scratch = take_scratch(plan, made.wanted[i].get_size());
  }
  list.push_back({DNNL_ARG_SCRATCHPAD, made.desc.scratchpad_desc()});
  part.scratchpad = take_scratch(plan, scratchpad_bytes(made, problem));
  part.primitive = std::make_unique<OnednnPrimitive>(dnnl::primitive(made.desc), std::move(list));
  return part;
}

/// Elements at which the operands of a piece begin.
std::array<std::int64_t, 3> first_elements(ConvPass pass, const ConvPiece& piece) {
  const std::int64_t data = piece.first_data, result = piece.first_result;
  if (pass == ConvPass::Forward) return {data, 0, result};
  if (pass == ConvPass::Data) return {0, result, data};
  return {data, result, 0};
}

/// `weights`: their operand, which the program has as `plain_weights`.
std::string reordered_text(const ConvPrimitive& made, const memory::desc& plain_weights,
                           std::size_t weights) {
  std::string text;
  for (std::size_t i = 0; i < 3; ++i) {
    const memory::desc& plain = i == weights ? plain_weights : made.plain[i];
    if (plain != made.wanted[i]) text += str_cat(", operand ", i, " reordered");
  }
  return text;
}

KernelPlan plan_conv(ConvPass pass, const ConvProblem& problem, int num_threads) {
  const SingleThreaded single;
  const ConvSplit split = split_conv(pass, problem, num_threads);
  const std::size_t weights = conv_weights_operand(pass);
  const ConvPrimitive& first = split.primitives.front();
  const memory::desc& layout = split.weights;
  const memory::desc& plain = problem.has_prepared_weights ? layout : first.plain[weights];
  auto conv = std::make_shared<OnednnConv>();
  conv->num_threads = num_threads;
  conv->weights_operand = weights;
  conv->sums = pass == ConvPass::Weights;
  conv->weights_elements = static_cast<std::int64_t>(layout.get_size() / sizeof(float));
  KernelPlan plan;
  plan.detail = first.desc.impl_info_str() + reordered_text(first, plain, weights);
  if (plain != layout) {
    conv->sums ? conv->reorder.emplace(layout, plain, num_threads)
               : conv->reorder.emplace(plain, layout, num_threads);
    conv->weights_scratch = take_scratch(plan, layout.get_size());
  }
  for (std::size_t i = 0; i < split.pieces.size(); ++i) {
    ConvPart part = plan_part(split.primitives[i], split.pieces[i].problem, weights, plan);
    const auto elements = first_elements(pass, split.pieces[i]);
    for (std::size_t k = 0; k < 3; ++k) part.operands[k].first = elements[k];
    if (conv->sums && !conv->parts.empty()) part.sum = take_scratch(plan, layout.get_size());
    conv->parts.push_back(std::move(part));
  }
  if (split.are_rows) plan.detail += str_cat(", ", split.pieces.size(), " parts of rows");
  plan.run = [conv = std::shared_ptr<const OnednnConv>(std::move(conv))](
                 std::byte* const* operands, std::byte* scratch) { (*conv)(operands, scratch); };
  return plan;
}

/// The problem that oneDNN is asked to solve, or why it is not.
template <ConvPass Pass>
std::string parse_onednn_conv(const KernelRequest& request, ConvProblem& problem) {
  if (std::string fault = parse_conv(request, Pass, problem); !fault.empty()) return fault;
  if (problem.dtype != DType::Float32) return "only float32";
  if (problem.has_prepared_filters) return "filters are prepared for winograd";
  const bool is_empty =
      num_elements(problem.data) * num_elements(problem.weights) * num_elements(problem.result) ==
      0;
  return is_empty ? "empty operand" : "";
}

/// The weights in the program, and as all parts of the convolution have them.
struct WeightsLayouts {
  memory::desc plain, wanted;
};

WeightsLayouts weights_layouts(ConvPass pass, const ConvProblem& problem, int num_threads) {
  const SingleThreaded single;
  const ConvSplit split = split_conv(pass, problem, num_threads);
  return {split.primitives.front().plain[conv_weights_operand(pass)], split.weights};
}

}  // namespace

template <ConvPass Pass>
KernelPlan make_onednn_conv(const KernelRequest& request) {
  ConvProblem problem;
  if (std::string fault = parse_onednn_conv<Pass>(request, problem); !fault.empty()) {
    return KernelPlan::reject(fault);
  }
  try {
    return plan_conv(Pass, problem, request.num_threads);
  } catch (const dnnl::error& error) {
    return KernelPlan::reject(str_cat("oneDNN: ", error.what()));
  }
}

template <ConvPass Pass>
std::vector<std::int32_t> onednn_reordered_images(const KernelRequest& request) {
  constexpr std::size_t kWeights = conv_weights_operand(Pass);
  ConvProblem problem;
  if (!parse_onednn_conv<Pass>(request, problem).empty()) return {};
  std::vector<std::int32_t> reordered;
  try {
    const SingleThreaded single;
    const ConvPrimitive first = describe_conv(Pass, problem, problem);
    problem.channel_last = true;
    if (!is_fast_with_channels_last(describe_conv(Pass, problem, problem))) return {};
    for (std::size_t i = 0; i < 3; ++i) {
      const bool is_reordered = i != kWeights && first.plain[i] != first.wanted[i];
      if (is_reordered) reordered.push_back(static_cast<std::int32_t>(i));
    }
  } catch (const dnnl::error&) {
    return {};
  }
  return reordered;
}

template <ConvPass Pass>
std::optional<PreparedInput> prepared_conv_weights(const KernelRequest& request) {
  constexpr std::size_t kWeights = conv_weights_operand(Pass);
  ConvProblem problem;
  if (!parse_onednn_conv<Pass>(request, problem).empty()) return std::nullopt;
  if (problem.has_prepared_weights) return std::nullopt;
  try {
    const auto [plain, wanted] = weights_layouts(Pass, problem, request.num_threads);
    if (plain == wanted) return std::nullopt;
    const KernelSpec& spec = request.spec;
    const Shape floats = {static_cast<std::int64_t>(wanted.get_size() / sizeof(float))};
    const OperandDesc made = OperandDesc::contiguous(DType::Float32, floats);
    PreparedInput prepared{static_cast<std::int32_t>(kWeights), {}, spec};
    prepared.maker.kind = spec.kind + "PreparedWeights";
    prepared.maker.attributes = spec.attributes;
    prepared.maker.attributes.set("image_shape", Ints(spec.inputs[1 - kWeights].shape));
    prepared.maker.attributes.set("result_shape", Ints(spec.outputs.front().shape));
    prepared.maker.inputs = {spec.inputs[kWeights]};
    prepared.maker.outputs = {made};
    prepared.user.inputs[kWeights] = made;
    prepared.user.attributes.set("prepared_weights", Ints(problem.weights));
    prepared.restorer = prepared.maker;
    prepared.restorer->kind = spec.kind + "RestoredWeights";
    std::swap(prepared.restorer->inputs, prepared.restorer->outputs);
    return prepared;
  } catch (const dnnl::error&) {
    return std::nullopt;
  }
}

namespace {

enum class Direction : std::uint8_t { ToWanted, ToPlain };

/// `weights`: as the convolution has them that `request` has the attributes of.
template <ConvPass Pass>
KernelPlan plan_weights(const KernelRequest& request, const OperandDesc& weights,
                        Direction direction) {
  KernelSpec conv;
  conv.attributes = request.attributes();
  const auto image = [&](const char* shape) {
    return OperandDesc::contiguous(DType::Float32, conv.attributes.ints(shape));
  };
  conv.inputs = {image("image_shape"), image("image_shape")};
  conv.inputs[conv_weights_operand(Pass)] = weights;
  conv.outputs = {image("result_shape")};
  ConvProblem problem;
  const std::string fault = parse_onednn_conv<Pass>({conv, request.num_threads}, problem);
  if (!fault.empty()) return KernelPlan::reject(fault);
  try {
    auto [from, to] = weights_layouts(Pass, problem, request.num_threads);
    if (direction == Direction::ToPlain) std::swap(from, to);
    KernelPlan plan;
    const auto reorder = std::make_shared<WeightsReorder>(from, to, request.num_threads);
    plan.run = [reorder](std::byte* const* operands, std::byte*) {
      reorder->run(operands[0], operands[1]);
    };
    return plan;
  } catch (const dnnl::error& error) {
    return KernelPlan::reject(str_cat("oneDNN: ", error.what()));
  }
}

}  // namespace

template <ConvPass Pass>
KernelPlan make_prepared_weights(const KernelRequest& request) {
  return plan_weights<Pass>(request, request.input(0), Direction::ToWanted);
}

template <ConvPass Pass>
KernelPlan make_restored_weights(const KernelRequest& request) {
  return plan_weights<Pass>(request, request.output(0), Direction::ToPlain);
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
template std::optional<PreparedInput> prepared_conv_weights<ConvPass::Forward>(
    const KernelRequest& request);
template std::optional<PreparedInput> prepared_conv_weights<ConvPass::Data>(
    const KernelRequest& request);
template KernelPlan make_prepared_weights<ConvPass::Forward>(const KernelRequest& request);
template KernelPlan make_prepared_weights<ConvPass::Data>(const KernelRequest& request);
template KernelPlan make_restored_weights<ConvPass::Forward>(const KernelRequest& request);
template KernelPlan make_restored_weights<ConvPass::Data>(const KernelRequest& request);

}  // namespace pando::cpu
