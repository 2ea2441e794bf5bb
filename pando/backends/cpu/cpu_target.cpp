#include "pando/backends/cpu/cpu_target.hpp"

#include <algorithm>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "pando/backends/cpu/fused/fused_images.hpp"
#include "pando/backends/cpu/fused/fused_kernel.hpp"
#include "pando/backends/cpu/kernel_table.hpp"
#include "pando/backends/cpu/kernels/product_kernel.hpp"
#include "pando/backends/cpu/processor.hpp"
#include "pando/base/error.hpp"
#include "pando/base/spin.hpp"
#include "pando/program/kernel_spec_hash.hpp"

namespace pando {
namespace cpu {

namespace {

bool is_listed(const Attributes& attributes, const char* name, std::size_t i) {
  if (!attributes.has(name)) return false;
  const Ints& list = attributes.ints(name);
  return std::find(list.begin(), list.end(), static_cast<std::int64_t>(i)) != list.end();
}

}  // namespace

bool KernelRequest::has_input(std::size_t i) const {
  return i < spec.inputs.size() && !is_listed(spec.attributes, "absent_inputs", i);
}

bool KernelRequest::has_output(std::size_t i) const {
  return i < spec.outputs.size() && !is_listed(spec.attributes, "absent_outputs", i);
}

KernelImages images_in_either_layout(const KernelRequest& request,
                                     const std::vector<std::int32_t>& operands) {
  if (request.attributes().flag_or("channel_last", false)) return {};
  const KernelSpec& spec = request.spec;
  const bool are_images = std::all_of(operands.begin(), operands.end(), [&](std::int32_t i) {
    const auto at = static_cast<std::size_t>(i);
    const OperandDesc& operand =
        at < spec.inputs.size() ? spec.inputs[at] : spec.outputs[at - spec.inputs.size()];
    return operand.shape.size() >= 3 && operand.is_contiguous();
  });
  return are_images ? KernelImages{operands, {}} : KernelImages{};
}

std::string operand_text(const OperandDesc& operand) {
  return str_cat(shape_text(operand.shape), " ", operand.dtype);
}

namespace {

const KernelTable& kernel_table() {
  static const KernelTable table = [] {
    KernelTable result;
#define PANDO_REGISTER_FAMILY(family) register_##family##_kernels(result);
    PANDO_CPU_KERNEL_FAMILIES(PANDO_REGISTER_FAMILY)
#undef PANDO_REGISTER_FAMILY
    return result;
  }();
  return table;
}

bool is_fused_kind(std::string_view kind) {
  return kind == "Fused" || kind == "Copy" || kind == "Fill";
}

class PlannedKernel : public HostKernel {
 public:
  PlannedKernel(KernelPlan plan, std::string explanation)
      : plan_(std::move(plan)), explanation_(std::move(explanation)) {}
  void run(std::byte* const* operands, std::byte* scratch) const override {
    plan_.run(operands, scratch);
  }
  std::size_t scratch_bytes() const override { return plan_.scratch_bytes; }
  std::string explain() const override { return explanation_; }

 private:
  KernelPlan plan_;
  std::string explanation_;
};

std::string operands_text(const KernelSpec& spec) {
  std::string text;
  for (const OperandDesc& input : spec.inputs) {
    text += str_cat(text.empty() ? "" : ", ", operand_text(input));
  }
  text += " ->";
  for (const OperandDesc& output : spec.outputs) text += str_cat(" ", operand_text(output));
  return text;
}

std::shared_ptr<const Kernel> make_planned_kernel(const KernelSpec& spec, int num_threads) {
  const auto entry = kernel_table().find(spec.kind);
  if (entry == kernel_table().end()) {
    throw Error(
        str_cat("the CPU target has no kernel for ", spec.kind, " (", operands_text(spec), ")"));
  }
  const KernelRequest request{spec, num_threads};
  std::string rejections;
  for (const Candidate& candidate : entry->second.candidates) {
    if (candidate.is_for != nullptr && !candidate.is_for(request)) continue;
    KernelPlan plan = candidate.make(request);
    if (plan.rejection.empty()) {
      std::string text = str_cat(spec.kind, ": ", candidate.name);
      if (!plan.detail.empty()) text += str_cat(" (", plan.detail, ")");
      return std::make_shared<PlannedKernel>(std::move(plan), text + rejections);
    }
    rejections += str_cat("; not ", candidate.name, ": ", plan.rejection);
  }
  throw Error(
      str_cat("the CPU target cannot run ", spec.kind, " (", operands_text(spec), ")", rejections));
}

/// A longer fused kernel needs more vectors at a time than there are registers.
constexpr std::size_t kMostFusedOps = 32;
/// Larger results leave the cache before they are used again.
constexpr std::size_t kMostSharedBytes = std::size_t{64} << 10;
/// Where weights take gigabytes, memory is worth more than the time that second copies save.
constexpr std::int64_t kMostPreparedBytes = std::int64_t{1} << 30;

class CpuTarget : public Target {
 public:
  CpuTarget(int num_threads, MachineCode machine_code)
      : num_threads_(num_threads),
        machine_code_(machine_code),
        identity_(str_cat("cpu threads ", num_threads, " machine code ",
                          static_cast<int>(machine_code), " ", processor_identity())) {}

  std::string name() const override { return "cpu"; }
  std::string identity() const override { return identity_; }
  int num_threads() const override { return num_threads_; }
  bool kernels_use_host_memory() const override { return true; }
  bool devices_share_memory() const override { return true; }

  bool has_kernel(std::string_view kind) const override {
    return is_fused_kind(kind) || kernel_table().find(kind) != kernel_table().end();
  }

  AcceptedLayout accepted_layout(const KernelSpec& spec, int operand) const override {
    if (is_fused_kind(spec.kind)) return AcceptedLayout::AnyStrides;
    const auto entry = kernel_table().find(spec.kind);
    const bool is_input = operand < static_cast<int>(spec.inputs.size());
    if (entry == kernel_table().end() || !is_input) return AcceptedLayout::Contiguous;
    const std::vector<int>& strided = entry->second.strided_inputs;
    if (std::find(strided.begin(), strided.end(), operand) != strided.end()) {
      return AcceptedLayout::AnyStrides;
    }
    if (entry->second.layout == AcceptedLayout::MatrixAnyOrder && operand >= 2) {
      return AcceptedLayout::Contiguous;
    }
    return entry->second.layout;
  }

  KernelImages images_of(const KernelSpec& spec) const override {
    if (spec.kind == "Fused") return images_of_fused(spec);
    const auto entry = kernel_table().find(spec.kind);
    if (entry == kernel_table().end() || entry->second.images == nullptr) return {};
    return entry->second.images({spec, num_threads_});
  }

  std::optional<PreparedInput> prepared_input(const KernelSpec& spec) const override {
    if (makes_whole_product(spec)) return prepared_matrix(spec, num_threads_);
    const auto entry = kernel_table().find(spec.kind);
    if (entry == kernel_table().end() || entry->second.prepared == nullptr) return std::nullopt;
    return entry->second.prepared({spec, num_threads_});
  }

  std::int64_t most_prepared_bytes() const override { return kMostPreparedBytes; }

  int output_over(const KernelSpec& spec, int input) const override {
    const auto entry = kernel_table().find(spec.kind);
    if (entry == kernel_table().end()) return -1;
    const std::vector<int>& allowed = entry->second.in_place_inputs;
    if (std::find(allowed.begin(), allowed.end(), input) == allowed.end()) return -1;
    const auto output = static_cast<std::size_t>(entry->second.in_place_output);
    const bool is_alike = output < spec.outputs.size() &&
                          spec.inputs[static_cast<std::size_t>(input)] == spec.outputs[output];
    return is_alike ? entry->second.in_place_output : -1;
  }

  std::size_t most_fused_ops() const override { return kMostFusedOps; }
  bool skips_outside_bands() const override { return true; }
  std::size_t most_shared_bytes() const override { return kMostSharedBytes; }

  ProductUse computes_inside(const KernelSpec& fused, std::size_t input,
                             const KernelSpec& product) const override {
    return product_use(fused, input, product);
  }

  std::shared_ptr<const Kernel> prepare(const KernelSpec& spec) override {
    const std::lock_guard lock(mutex_);
    if (const auto it = cache_.find(spec); it != cache_.end()) return it->second;
    std::shared_ptr<const Kernel> kernel = make(spec);
    cache_.emplace(spec, kernel);
    return kernel;
  }

 private:
  static bool makes_whole_product(const KernelSpec& spec) {
    return !spec.products.empty() && spec.products.front().place >= 0;
  }

  std::shared_ptr<const Kernel> make(const KernelSpec& spec) const {
    if (makes_whole_product(spec)) return make_product_kernel(spec, num_threads_, machine_code_);
    if (spec.kind == "Fused") return make_fused_kernel(spec, num_threads_, machine_code_);
    if (spec.kind == "Copy") return make_copy_kernel(spec, num_threads_);
    if (spec.kind == "Fill") return make_fill_kernel(spec, num_threads_);
    return make_planned_kernel(spec, num_threads_);
  }

  int num_threads_;
  MachineCode machine_code_;
  const std::string identity_;
  std::mutex mutex_;
  std::unordered_map<KernelSpec, std::shared_ptr<const Kernel>, KernelSpecHash> cache_;
};

MachineCode machine_code_named(const std::string& name) {
  if (name == "auto") return MachineCode::Automatic;
  if (name == "never") return MachineCode::Never;
  if (name == "always") return MachineCode::Always;
  throw ValueError(
      str_cat("wanted machine_code to be one of 'auto', 'never', 'always'; given '", name, "'"));
}

MachineCode machine_code_of(const DeviceOptions& options) {
  MachineCode machine_code = MachineCode::Automatic;
  for (const auto& [name, value] : options) {
    if (name != "machine_code") {
      throw ValueError(
          str_cat("the device 'cpu' has no option '", name, "'; the only one is 'machine_code'"));
    }
    machine_code = machine_code_named(value);
  }
  return machine_code;
}

}  // namespace
}  // namespace cpu

std::shared_ptr<Target> make_cpu_target(int num_threads, const DeviceOptions& options) {
  if (num_threads < 0) {
    throw ValueError(
        str_cat("the CPU target needs a thread count of at least 1, or 0 for all "
                "cores; got ",
                num_threads));
  }
  if (num_threads == 0) num_threads = static_cast<int>(usable_cores());
  return std::make_shared<cpu::CpuTarget>(num_threads, cpu::machine_code_of(options));
}

}  // namespace pando
