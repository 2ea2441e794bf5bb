// How the CPU target finds an implementation: per kernel kind an ordered list of candidates, each
// of which accepts a spec or says why not.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pando/program/kernel.hpp"
#include "pando/program/program.hpp"
#include "pando/program/target.hpp"

namespace pando::cpu {

/// What a candidate is asked to implement.
struct KernelRequest {
  const KernelSpec& spec;
  int num_threads = 1;

  const OperandDesc& input(std::size_t i) const { return spec.inputs[i]; }
  const OperandDesc& output(std::size_t i) const { return spec.outputs[i]; }
  /// Whether input `i` is connected (see attribute "absent_inputs").
  bool has_input(std::size_t i) const;
  /// Whether output `i` is: "absent_outputs".
  bool has_output(std::size_t i) const;
  const Attributes& attributes() const { return spec.attributes; }
};

/// `operands`: inputs, then outputs; `scratch`: 64-byte aligned. Must be callable from several
/// threads at once and allocate nothing.
using RunFunction = std::function<void(std::byte* const* operands, std::byte* scratch)>;

/// The answer of a candidate: a function to run, or the reason of its rejection.
struct KernelPlan {
  RunFunction run;
  std::size_t scratch_bytes = 0;
  std::string detail;     // shown by explain()
  std::string rejection;  // non-empty: cannot run this spec

  static KernelPlan reject(std::string why) {
    KernelPlan plan;
    plan.rejection = std::move(why);
    return plan;
  }
};

struct Candidate {
  std::string_view name;
  KernelPlan (*make)(const KernelRequest&);
  /// Whether it is for such specs at all: else nobody is told of its rejection.
  bool (*is_for)(const KernelRequest&) = nullptr;
};

/// Everything the target knows about a kind.
struct KindEntry {
  std::vector<Candidate> candidates;  // in order of preference
  AcceptedLayout layout = AcceptedLayout::Contiguous;
  /// Inputs whose memory output `in_place_output` may use; such an input has its dtype and shape.
  std::vector<int> in_place_inputs = {};
  /// See Target::images_of; nullptr: no operands are images.
  KernelImages (*images)(const KernelRequest&) = nullptr;
  /// Inputs that have any strides, whatever `layout` says.
  std::vector<int> strided_inputs = {};
  /// See Target::prepared_input; nullptr: none is.
  std::optional<PreparedInput> (*prepared)(const KernelRequest&) = nullptr;
  int in_place_output = 0;
};

using KernelTable = std::map<std::string, KindEntry, std::less<>>;

// One function per family; each fills in its kinds.
// clang-format off
#define PANDO_CPU_KERNEL_FAMILIES(X)                                                         \
  X(attention) X(batch_norm) X(check) X(conv) X(ctc) X(fold) X(gather)                       \
  X(grouped_matmul) X(library) X(linear_algebra) X(matmul) X(nll) X(norm) X(pool)            \
  X(recurrent) X(recurrent_gradient) X(reduce) X(roi_align) X(rows) X(scan) X(scatter)       \
  X(select) X(slice) X(softmax)
// clang-format on

#define PANDO_DECLARE_FAMILY(family) void register_##family##_kernels(KernelTable& table);
PANDO_CPU_KERNEL_FAMILIES(PANDO_DECLARE_FAMILY)
#undef PANDO_DECLARE_FAMILY

/// Operands `operands` (inputs, then outputs) of a kernel that reorders none of them, where they
/// are images with channels first.
KernelImages images_in_either_layout(const KernelRequest& request,
                                     const std::vector<std::int32_t>& operands);

/// `(2, 3) float32` for error texts.
std::string operand_text(const OperandDesc& operand);

/// Runs float16 and bfloat16 operands through the plan that `make` gives for the same spec in
/// float32. For specs without negative strides, whose outputs are C-ordered.
KernelPlan plan_through_float32(const KernelRequest& request,
                                KernelPlan (*make)(const KernelRequest&));

/// Rounds up to the alignment of scratch segments.
constexpr std::size_t scratch_aligned(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

}  // namespace pando::cpu
