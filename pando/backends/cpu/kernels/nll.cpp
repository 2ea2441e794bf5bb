// Nll, NllGrad and NlllWithSoftmaxGradDirect.
#include <algorithm>
#include <cmath>
#include <optional>
#include <type_traits>
#include <utility>

#include "pando/backends/cpu/kernel_table.hpp"
#include "pando/backends/cpu/kernels/element.hpp"
#include "pando/backends/cpu/kernels/float_rows.hpp"
#include "pando/backends/cpu/kernels/index.hpp"
#include "pando/backends/cpu/kernels/softmax_rows.hpp"
#include "pando/base/error.hpp"

namespace pando::cpu {
namespace {

struct NllProblem {
  std::int64_t count = 0, classes = 0;
  DType labels = DType::Int32;
  bool mean = false, none = false, log_prob = false, has_ignored = false;
  std::int64_t ignored = 0;
  int threads = 1;

  bool keeps(std::int64_t label) const { return !has_ignored || label != ignored; }
  bool in_range(std::int64_t label) const { return label >= 0 && label < classes; }

  /// 1 / number of labels that count, for "mean"; else 1.
  double scale(const IndexReader& reader) const {
    if (!mean) return 1.0;
    if (!has_ignored) return 1.0 / static_cast<double>(std::max<std::int64_t>(1, count));
    std::int64_t kept = 0;
    for (std::int64_t i = 0; i < count; ++i) kept += keeps(reader[i]) ? 1 : 0;
    return 1.0 / static_cast<double>(std::max<std::int64_t>(1, kept));
  }
};

/// Fills in the problem from inputs `probs` and `labels`, or returns what is wrong.
std::string parse_nll(const KernelRequest& request, std::size_t probs, NllProblem& problem) {
  const OperandDesc& p = request.input(probs);
  const OperandDesc& l = request.input(probs + 1);
  const bool fits = !p.shape.empty() && is_integer(l.dtype) &&
                    num_elements(l.shape) * p.shape.back() == num_elements(p.shape);
  if (!fits) {
    return str_cat("labels must be integers, one for each row of probs; got ", operand_text(l),
                   " for ", operand_text(p));
  }
  const std::string& reduction = request.attributes().text("reduction");
  if (reduction != "mean" && reduction != "sum" && reduction != "none") {
    return str_cat("unknown reduction '", reduction, "'");
  }
  problem.count = num_elements(l.shape);
  problem.classes = p.shape.back();
  problem.labels = l.dtype;
  problem.mean = reduction == "mean";
  problem.none = reduction == "none";
  problem.log_prob = request.attributes().flag_or("log_prob", false);
  problem.has_ignored = request.attributes().has("ignore_index");
  problem.ignored = request.attributes().integer_or("ignore_index", 0);
  problem.threads = request.num_threads;
  return "";
}

constexpr double forward_epsilon(DType dtype) { return dtype == DType::Float16 ? 6.104e-5 : 1e-7; }
constexpr double gradient_epsilon(DType dtype) {
  return dtype == DType::Float16 ? 6.104e-5 : 1e-10;
}

/// Reduces `loss(p)` of kept labels, where p is element(row, label), into `out`.
template <class T, class Element, class Loss>
void reduce_losses(const NllProblem& problem, const Element& element, const IndexReader& labels,
                   T* out, const Loss& loss) {
  double total = 0;
  for (std::int64_t i = 0; i < problem.count; ++i) {
    const std::int64_t label = labels[i];
    double value = 0;
    if (problem.keeps(label)) {
      value = loss(problem.in_range(label) ? static_cast<double>(element(i, label)) : 0.0);
    }
    if (problem.none) out[i] = static_cast<T>(value);
    total += value;
  }
  if (!problem.none) out[0] = static_cast<T>(total * problem.scale(labels));
}

KernelPlan make_nll(const KernelRequest& request) {
  NllProblem problem;
  if (std::string fault = parse_nll(request, 0, problem); !fault.empty()) {
    return KernelPlan::reject(fault);
  }
  const DType dtype = request.input(0).dtype;
  KernelPlan plan;
  const bool known = dispatch_float(dtype, [&]<class T>(T) {
    plan.run = [problem, eps = forward_epsilon(dtype)](std::byte* const* operands, std::byte*) {
      const T* probs = operand_in<T>(operands, 0);
      const auto element = [&](std::int64_t row, std::int64_t label) {
        return probs[row * problem.classes + label];
      };
      reduce_losses(problem, element, IndexReader(operands[1], problem.labels),
                    operand_out<T>(operands, 2), [&](double p) {
                      return problem.log_prob ? -p
                                              : -std::log(std::isnan(p) ? p : std::max(p, eps));
                    });
    };
  });
  return known ? plan : KernelPlan::reject(unsupported_dtype(dtype));
}

KernelPlan make_nll_grad(const KernelRequest& request) {
  NllProblem problem;
  if (std::string fault = parse_nll(request, 1, problem); !fault.empty()) {
    return KernelPlan::reject(fault);
  }
  const DType dtype = request.input(1).dtype;
  if (request.input(0).dtype != dtype) return KernelPlan::reject("the gradient's dtype differs");
  KernelPlan plan;
  const bool known = dispatch_float(dtype, [&]<class T>(T) {
    plan.run = [problem, eps = gradient_epsilon(dtype)](std::byte* const* operands, std::byte*) {
      const T* g = operand_in<T>(operands, 0);
      const T* probs = operand_in<T>(operands, 1);
      const IndexReader labels(operands[2], problem.labels);
      T* dx = operand_out<T>(operands, 3);
      const double scale = problem.scale(labels);
      parallel_for(problem.threads, problem.count, row_grain(problem.classes),
                   [&](std::int64_t begin, std::int64_t end) {
                     std::fill(dx + begin * problem.classes, dx + end * problem.classes, T{});
                     for (std::int64_t i = begin; i < end; ++i) {
                       const std::int64_t label = labels[i];
                       if (!problem.keeps(label) || !problem.in_range(label)) continue;
                       const std::int64_t at = i * problem.classes + label;
                       const double p = static_cast<double>(probs[at]);
                       const double slope = problem.log_prob ? -1.0 : -1.0 / std::max(p, eps);
                       const double upstream = static_cast<double>(g[problem.none ? i : 0]);
                       dx[at] = static_cast<T>(slope * upstream * scale);
                     }
                   });
    };
  });
  return known ? plan : KernelPlan::reject(unsupported_dtype(dtype));
}

template <class T>
void multiply_row(const T* in, T* out, std::int64_t count, Compute<T> factor) {
  for (std::int64_t j = 0; j < count; ++j) {
    out[j] = static_cast<T>(static_cast<Compute<T>>(in[j]) * factor);
  }
}
void multiply_row(const float* in, float* out, std::int64_t count, float factor) {
  multiply_row_f32(in, out, count, factor);
}

struct NllGradientProblem : NllProblem {
  std::optional<DType> grad_dtype;  // of the loss's gradient, if there is one
  bool grads_by_label = false;
  std::size_t loss_operand = 0;  // dx follows it

  template <class G>
  double factor(const G* loss_grad, std::int64_t row, double scale) const {
    if (loss_grad == nullptr) return scale;
    return static_cast<double>(loss_grad[grads_by_label ? row : 0]) * scale;
  }
};

std::string parse_gradient(const KernelRequest& request, NllGradientProblem& problem) {
  if (std::string fault = parse_nll(request, 0, problem); !fault.empty()) return fault;
  problem.loss_operand = request.spec.inputs.size();
  if (!request.has_input(2)) return "";
  problem.grad_dtype = request.input(2).dtype;
  const std::int64_t grads = num_elements(request.input(2).shape);
  problem.grads_by_label = problem.none && grads == problem.count;
  if (grads == 1 || problem.grads_by_label) return "";
  return str_cat("loss_grad ", operand_text(request.input(2)),
                 " is neither a scalar nor shaped as the loss");
}

/// dx = (probs - onehot(label)) * factor of one row; dx may be probs.
template <class T>
void softmax_nll_row(const NllProblem& problem, const T* probs, std::int64_t label, double factor,
                     T* dx) {
  const auto by = static_cast<Compute<T>>(factor);
  const bool in_range = problem.in_range(label);
  const Compute<T> of_label = in_range ? static_cast<Compute<T>>(probs[label]) : Compute<T>{};
  multiply_row(probs, dx, problem.classes, by);
  if (in_range) dx[label] = static_cast<T>((of_label - 1) * by);
}

/// With `from_scores`, each row's probabilities are made where its gradient will be, from scores
/// that may lie there. The gradient overwrites them: those of labels are kept for the loss.
template <class T, class G>
void run_nll_with_softmax_grad(const NllGradientProblem& problem, bool from_scores,
                               std::byte* const* operands, T* probs_of_labels) {
  const T* in = operand_in<T>(operands, 0);
  const IndexReader labels(operands[1], problem.labels);
  const G* loss_grad = problem.grad_dtype ? operand_in<G>(operands, 2) : nullptr;
  T* dx = operand_out<T>(operands, problem.loss_operand + 1);
  const double scale = problem.scale(labels);
  const auto gradient = [&](std::int64_t i) {
    const std::int64_t label = labels[i];
    const T* probs = in + i * problem.classes;
    T* row = dx + i * problem.classes;
    if (!problem.keeps(label)) {
      std::fill_n(row, problem.classes, T{});
      return;
    }
    if constexpr (std::is_same_v<T, float>) {
      if (from_scores) softmax_row_f32(std::exchange(probs, row), row, problem.classes, 1);
    }
    if (problem.in_range(label)) probs_of_labels[i] = probs[label];
    softmax_nll_row(problem, probs, label, problem.factor(loss_grad, i, scale), row);
  };
  const std::int64_t grain =
      from_scores ? row_grain(problem.classes, 1 << 13) : row_grain(problem.classes);
  parallel_for(problem.threads, problem.count, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) gradient(i);
  });
  reduce_losses(
      problem, [&](std::int64_t row, std::int64_t) { return probs_of_labels[row]; }, labels,
      operand_out<T>(operands, problem.loss_operand), [](double p) { return -std::log(p + 1e-7); });
}

KernelPlan make_nll_with_softmax_grad(const KernelRequest& request) {
  NllGradientProblem problem;
  if (std::string fault = parse_gradient(request, problem); !fault.empty()) {
    return KernelPlan::reject(fault);
  }
  const bool from_scores = request.attributes().flag_or("from_scores", false);
  const DType dtype = request.input(0).dtype;
  const DType grad_dtype = problem.grad_dtype.value_or(DType::Float32);
  if (from_scores && dtype != DType::Float32) return KernelPlan::reject("scores are not float32");
  KernelPlan plan;
  plan.scratch_bytes = static_cast<std::size_t>(problem.count) * dtype_bytes(dtype);
  const bool known = dispatch_float(dtype, [&]<class T>(T) {
    dispatch_float(grad_dtype, [&]<class G>(G) {
      plan.run = [=](std::byte* const* operands, std::byte* scratch) {
        run_nll_with_softmax_grad<T, G>(problem, from_scores, operands,
                                        reinterpret_cast<T*>(scratch));
      };
    });
  });
  if (!known || !plan.run) {
    return KernelPlan::reject(unsupported_dtype(known ? grad_dtype : dtype));
  }
  return plan;
}

}  // namespace

void register_nll_kernels(KernelTable& table) {
  table["Nll"] = {{{"rows", make_nll}}};
  table["NllGrad"] = {{{"rows", make_nll_grad}}};
  table["NlllWithSoftmaxGradDirect"] = {.candidates = {{"rows", make_nll_with_softmax_grad}},
                                        .in_place_inputs = {0},
                                        .in_place_output = 1};
}

}  // namespace pando::cpu
