// Nll, NllGrad and NlllWithSoftmaxGradDirect.
#include <algorithm>
#include <cmath>
#include <optional>

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

template <class T>
auto elements_of(const NllProblem& problem, const T* probs) {
  return [=, classes = problem.classes](std::int64_t row, std::int64_t label) {
    return probs[row * classes + label];
  };
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
      reduce_losses(
          problem, elements_of(problem, operand_in<T>(operands, 0)),
          IndexReader(operands[1], problem.labels), operand_out<T>(operands, 2), [&](double p) {
            return problem.log_prob ? -p : -std::log(std::isnan(p) ? p : std::max(p, eps));
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

double nll_of_softmax(double p) { return -std::log(p + 1e-7); }

template <class T, class G>
void run_nll_with_softmax_grad(const NllGradientProblem& problem, std::byte* const* operands) {
  const T* probs = operand_in<T>(operands, 0);
  const IndexReader labels(operands[1], problem.labels);
  const G* loss_grad = problem.grad_dtype ? operand_in<G>(operands, 2) : nullptr;
  reduce_losses(problem, elements_of(problem, probs), labels,
                operand_out<T>(operands, problem.loss_operand), nll_of_softmax);
  T* dx = operand_out<T>(operands, problem.loss_operand + 1);
  const double scale = problem.scale(labels);
  const auto gradient = [&](std::int64_t i) {
    const std::int64_t first = i * problem.classes;
    if (!problem.keeps(labels[i])) {
      std::fill_n(dx + first, problem.classes, T{});
    } else {
      softmax_nll_row(problem, probs + first, labels[i], problem.factor(loss_grad, i, scale),
                      dx + first);
    }
  };
  parallel_for(problem.threads, problem.count, row_grain(problem.classes),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t i = begin; i < end; ++i) gradient(i);
               });
}

/// Each row's probabilities are made where its gradient will be, from scores that may lie there.
template <class G>
void run_nll_from_scores(const NllGradientProblem& problem, std::byte* const* operands,
                         float* probs_of_labels) {
  const float* scores = operand_in<float>(operands, 0);
  const IndexReader labels(operands[1], problem.labels);
  const G* loss_grad = problem.grad_dtype ? operand_in<G>(operands, 2) : nullptr;
  float* dx = operand_out<float>(operands, problem.loss_operand + 1);
  const double scale = problem.scale(labels);
  const auto gradient = [&](std::int64_t i) {
    const std::int64_t label = labels[i];
    float* row = dx + i * problem.classes;
    if (!problem.keeps(label)) {
      std::fill_n(row, problem.classes, 0.F);
      return;
    }
    softmax_row_f32(scores + i * problem.classes, row, problem.classes, 1);
    if (problem.in_range(label)) probs_of_labels[i] = row[label];
    softmax_nll_row(problem, row, label, problem.factor(loss_grad, i, scale), row);
  };
  parallel_for(problem.threads, problem.count, row_grain(problem.classes, 1 << 13),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t i = begin; i < end; ++i) gradient(i);
               });
  reduce_losses(
      problem, [&](std::int64_t row, std::int64_t) { return probs_of_labels[row]; }, labels,
      operand_out<float>(operands, problem.loss_operand), nll_of_softmax);
}

KernelPlan make_nll_with_softmax_grad(const KernelRequest& request) {
  NllGradientProblem problem;
  if (std::string fault = parse_gradient(request, problem); !fault.empty()) {
    return KernelPlan::reject(fault);
  }
  const bool from_scores = request.attributes().flag_or("from_scores", false);
  const DType dtype = request.input(0).dtype;
  const DType grad_dtype = problem.grad_dtype.value_or(DType::Float32);
  KernelPlan plan;
  if (from_scores) plan.scratch_bytes = static_cast<std::size_t>(problem.count) * sizeof(float);
  const bool known = dispatch_float(dtype, [&]<class T>(T) {
    dispatch_float(grad_dtype, [&]<class G>(G) {
      plan.run = [=](std::byte* const* operands, std::byte* scratch) {
        if (from_scores) {
          run_nll_from_scores<G>(problem, operands, reinterpret_cast<float*>(scratch));
        } else {
          run_nll_with_softmax_grad<T, G>(problem, operands);
        }
      };
    });
  });
  if (!known || !plan.run) {
    return KernelPlan::reject(unsupported_dtype(known ? grad_dtype : dtype));
  }
  if (from_scores && dtype != DType::Float32) return KernelPlan::reject("scores are not float32");
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
