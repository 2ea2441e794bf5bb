#include <array>
#include <vector>

#include "pando/backends/cpu/kernel_table.hpp"
#include "pando/backends/cpu/kernels/element.hpp"
#include "pando/backends/cpu/parallel.hpp"
#include "pando/base/error.hpp"

namespace pando::cpu {
namespace {

constexpr std::size_t kMaxOperands = 16;

struct ConvertedOperand {
  std::size_t index = 0, scratch_offset = 0;
  std::int64_t count = 0;
  DType format = DType::Float16;
};

struct ThroughFloat32 {
  std::vector<ConvertedOperand> inputs, outputs;
  KernelPlan inner;
  std::size_t num_operands = 0, inner_offset = 0;
  int threads = 1;

  void operator()(std::byte* const* operands, std::byte* scratch) const {
    std::array<std::byte*, kMaxOperands> floats{};
    std::copy_n(operands, num_operands, floats.begin());
    for (const ConvertedOperand& operand : inputs) {
      floats[operand.index] = scratch + operand.scratch_offset;
      const auto* from = reinterpret_cast<const std::uint16_t*>(operands[operand.index]);
      auto* to = reinterpret_cast<float*>(floats[operand.index]);
      parallel_for(threads, operand.count, 1 << 15, [&](std::int64_t begin, std::int64_t end) {
        half_precision_to_floats(operand.format, from + begin, to + begin,
                                 static_cast<std::size_t>(end - begin));
      });
    }
    for (const ConvertedOperand& operand : outputs) {
      floats[operand.index] = scratch + operand.scratch_offset;
    }
    inner.run(floats.data(), scratch + inner_offset);
    for (const ConvertedOperand& operand : outputs) {
      const auto* from = reinterpret_cast<const float*>(floats[operand.index]);
      auto* to = reinterpret_cast<std::uint16_t*>(operands[operand.index]);
      parallel_for(threads, operand.count, 1 << 15, [&](std::int64_t begin, std::int64_t end) {
        floats_to_half_precision(operand.format, from + begin, to + begin,
                                 static_cast<std::size_t>(end - begin));
      });
    }
  }
};

/// Elements of memory from the first one of an operand to its last one.
std::int64_t elements_spanned(const OperandDesc& operand) {
  std::int64_t last = 0;
  for (std::size_t d = 0; d < operand.shape.size(); ++d) {
    if (operand.shape[d] == 0) return 0;
    last += (operand.shape[d] - 1) * operand.strides[d];
  }
  return last + 1;
}

}  // namespace

KernelPlan plan_through_float32(const KernelRequest& request,
                                KernelPlan (*make)(const KernelRequest&)) {
  KernelSpec spec = request.spec;
  ThroughFloat32 through;
  through.threads = request.num_threads;
  through.num_operands = spec.inputs.size() + spec.outputs.size();
  internal_check(through.num_operands <= kMaxOperands,
                 "too many operands for a kernel of half precision");
  std::size_t at = 0, index = 0;
  const auto convert = [&](OperandDesc& operand, std::vector<ConvertedOperand>& list) {
    if (is_half_precision(operand.dtype)) {
      const std::int64_t count = elements_spanned(operand);
      list.push_back({index, at, count, operand.dtype});
      operand.dtype = DType::Float32;
      at += scratch_aligned(static_cast<std::size_t>(count) * sizeof(float));
    }
    ++index;
  };
  for (OperandDesc& operand : spec.inputs) convert(operand, through.inputs);
  for (OperandDesc& operand : spec.outputs) convert(operand, through.outputs);
  if (through.outputs.empty()) return KernelPlan::reject("only float16 and bfloat16");
  through.inner = make({spec, request.num_threads});
  if (!through.inner.rejection.empty()) return std::move(through.inner);
  through.inner_offset = at;
  KernelPlan plan;
  plan.scratch_bytes = at + through.inner.scratch_bytes;
  plan.detail = str_cat(through.outputs.front().format, " through float32",
                        through.inner.detail.empty() ? "" : ", ", through.inner.detail);
  plan.run = std::move(through);
  return plan;
}

}  // namespace pando::cpu
