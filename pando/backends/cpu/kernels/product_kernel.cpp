#include "pando/backends/cpu/kernels/product_kernel.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "pando/backends/cpu/kernels/matmul.hpp"
#include "pando/backends/cpu/kernels/product_program.hpp"
#include "pando/base/band_attributes.hpp"
#include "pando/base/error.hpp"

namespace pando::cpu {
namespace {

/// The gradient of a weight over a small batch, which then never lies in memory. Its matrices live
/// on until it is computed, so they must not be larger.
bool is_shallow(const OperandDesc& left, const OperandDesc& right, const OperandDesc& out) {
  // Deeper products are faster by themselves, with blocks of both operands in cache.
  constexpr std::int64_t kMostDepth = 16;
  if (out.shape.size() != 2) return false;
  const std::int64_t depth = left.shape[1], elements = num_elements(out.shape);
  return depth >= 1 && depth <= kMostDepth && elements >= 2 && right.strides[1] == 1 &&
         num_elements(left.shape) + num_elements(right.shape) <= elements;
}

/// The product of `spec` as a kernel of its own.
KernelSpec product_of(const KernelSpec& spec) {
  const ProductInput& product = spec.products.front();
  KernelSpec matmul;
  matmul.kind = "MatMul";
  matmul.inputs = {spec.inputs[static_cast<std::size_t>(product.left)],
                   spec.inputs[static_cast<std::size_t>(product.right)]};
  Shape shape = matmul.inputs[0].shape;
  shape.back() = matmul.inputs[1].shape.back();
  if (spec.attributes.has(KernelSpec::kPackedRight)) {
    const Ints& right = spec.attributes.ints(KernelSpec::kPackedRight);
    shape.back() = right.back();
    matmul.attributes.set(KernelSpec::kPackedRight, right);
  }
  matmul.outputs = {OperandDesc::contiguous(DType::Float32, shape)};
  return matmul;
}

class ProductKernel final : public HostKernel {
 public:
  ProductKernel(const KernelSpec& spec, int num_threads, MachineCode machine_code)
      : program_(split_product_program(spec)) {
    MatMulProblem problem = problem_of(spec, num_threads);
    const bool runs_parts = !program_.is_empty() && !numbers_elements(program_.rest.scalar);
    if (runs_parts) {
      problem.epilogue = std::make_shared<MatMulEpilogue>(MatMulEpilogue{
          make_fused_parts(program_.rest, machine_code), program_.rest, program_.is_in_place()});
    } else if (!program_.is_empty()) {
      after_ = make_fused_kernel(program_.rest, num_threads, machine_code);
    }
    for (const Choice& choice : kChoices) {
      plan_ = plan_product(choice.plan, problem, num_threads);
      if (plan_.rejection.empty()) {
        explanation_ =
            str_cat("MatMul: ", choice.name,
                    plan_.detail.empty() ? "" : str_cat(" (", plan_.detail, ")"), explanation_);
        break;
      }
      explanation_ += str_cat("; not ", choice.name, ": ", plan_.rejection);
    }
    internal_check(plan_.rejection.empty(), "no kernel for a product");
    if (runs_parts) explanation_ += "; on parts of it " + problem.epilogue->parts->explain();
    if (after_ != nullptr) explanation_ += "; then " + after_->explain();
    place_operands(spec);
  }

  std::size_t scratch_bytes() const override {
    return pointers_bytes_ +
           std::max(plan_.scratch_bytes, after_ == nullptr ? 0 : after_->scratch_bytes());
  }

  void run(std::byte* const* operands, std::byte* scratch) const override {
    auto** pointers = reinterpret_cast<std::byte**>(scratch);
    for (std::size_t i = 0; i < sources_.size(); ++i) pointers[i] = operands[sources_[i]];
    std::byte* rest = scratch + pointers_bytes_;
    plan_.run(pointers, rest);
    if (after_ != nullptr) after_->run(pointers + first_of_program_, rest);
  }

  std::string explain() const override { return explanation_; }

 private:
  struct Choice {
    std::string_view name;
    KernelPlan (*plan)(const MatMulProblem&, int);
  };
  static constexpr Choice kChoices[] = {{"skinny", plan_skinny_matmul},
                                        {"packed", plan_packed_matmul},
                                        {"onednn", plan_onednn_matmul},
                                        {"plain", plan_plain_matmul}};

  MatMulProblem problem_of(const KernelSpec& spec, int num_threads) const {
    KernelSpec matmul = product_of(spec);
    if (program_.bias) {
      const std::int64_t columns = matmul.outputs[0].shape.back();
      matmul.inputs.push_back(OperandDesc::contiguous(DType::Float32, {columns}));
    }
    MatMulProblem problem;
    const std::string fault = parse_matmul({matmul, num_threads}, problem);
    internal_check(fault.empty(), "matrices of a product that do not fit");
    return problem;
  }

  void place_operands(const KernelSpec& spec) {
    const ProductInput& product = spec.products.front();
    sources_ = {static_cast<std::size_t>(product.left), static_cast<std::size_t>(product.right)};
    if (program_.bias) sources_.push_back(*program_.bias);
    sources_.push_back(spec.inputs.size() + static_cast<std::size_t>(product.place));
    first_of_program_ = sources_.size();
    sources_.insert(sources_.end(), program_.operands.begin(), program_.operands.end());
    pointers_bytes_ = scratch_aligned(sources_.size() * sizeof(std::byte*));
  }

  ProductProgram program_;
  std::unique_ptr<HostKernel> after_;  // the program, where it cannot run on parts
  KernelPlan plan_;
  std::string explanation_;
  /// Operands of the product, then those of the program, among those of the kernel.
  std::vector<std::size_t> sources_;
  std::size_t first_of_program_ = 0, pointers_bytes_ = 0;
};

}  // namespace

ProductUse product_use(const KernelSpec& fused, std::size_t input, const KernelSpec& product) {
  const OperandDesc &left = product.inputs[0], &right = product.inputs[1],
                    &out = product.outputs[0];
  for (const OperandDesc* operand : {&left, &right, &out}) {
    if (operand->dtype != DType::Float32) return ProductUse::None;
  }
  if (!fused.outputs.empty() && fused.outputs[0].shape == out.shape && fused.inputs[input] == out &&
      is_shallow(left, right, out)) {
    return ProductUse::InPieces;
  }
  if (has_band(product.attributes) || !left.is_matrix() || !right.is_matrix())
    return ProductUse::None;
  return out.shape.back() > 1 && num_elements(out.shape) > 0 ? ProductUse::InOutput
                                                             : ProductUse::None;
}

std::optional<PreparedInput> prepared_matrix(const KernelSpec& spec, int num_threads) {
  if (spec.attributes.has(KernelSpec::kPackedRight)) return std::nullopt;
  std::optional<PreparedInput> prepared = packed_right({product_of(spec), num_threads});
  if (!prepared) return std::nullopt;
  prepared->input = spec.products.front().right;
  const OperandDesc made = prepared->maker.outputs.front();
  const Ints shape = prepared->user.attributes.ints(KernelSpec::kPackedRight);
  prepared->user = spec;
  prepared->user.inputs[static_cast<std::size_t>(prepared->input)] = made;
  prepared->user.attributes.set(KernelSpec::kPackedRight, shape);
  return prepared;
}

std::unique_ptr<HostKernel> make_product_kernel(const KernelSpec& spec, int num_threads,
                                                MachineCode machine_code) {
  return std::make_unique<ProductKernel>(spec, num_threads, machine_code);
}

}  // namespace pando::cpu
