// Nll, NllGrad and NlllWithSoftmaxGradDirect.
#include <algorithm>
#include <cmath>

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

/// Reduces per-label losses `loss(label, p)` of kept labels into `out`.
template <class T, class Loss>
void reduce_losses(const NllProblem& problem, const T* probs, const IndexReader& labels, T* out,
                   const Loss& loss) {
  double total = 0;
  for (std::int64_t i = 0; i < problem.count; ++i) {
    const std::int64_t label = labels[i];
    double value = 0;
    if (problem.keeps(label)) {
      const double p =
          problem.in_range(label) ? static_cast<double>(probs[i * problem.classes + label]) : 0.0;
      value = loss(p);
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
      reduce_losses(problem, operand_in<T>(operands, 0), IndexReader(operands[1], problem.labels),
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

/// dx = (probs - onehot) * loss_grad * scale for rows [begin, end); dx may be probs.
template <class T, class G>
void softmax_nll_rows(const NllProblem& problem, const T* probs, const IndexReader& labels,
                      const G* loss_grad, T* dx, double scale, std::int64_t begin,
                      std::int64_t end) {
  for (std::int64_t i = begin; i < end; ++i) {
    const std::int64_t label = labels[i];
    const T* p = probs + i * problem.classes;
    T* row = dx + i * problem.classes;
    if (!problem.keeps(label)) {
      std::fill(row, row + problem.classes, T{});
      continue;
    }
    const double upstream =
        loss_grad == nullptr ? 1.0 : static_cast<double>(loss_grad[problem.none ? i : 0]);
    const auto factor = static_cast<Compute<T>>(upstream * scale);
    const bool in_range = problem.in_range(label);
    const Compute<T> of_label = in_range ? static_cast<Compute<T>>(p[label]) : Compute<T>{};
    multiply_row(p, row, problem.classes, factor);
    if (in_range) row[label] = static_cast<T>((of_label - 1) * factor);
  }
}

KernelPlan make_nll_with_softmax_grad(const KernelRequest& request) {
  NllProblem problem;
  if (std::string fault = parse_nll(request, 0, problem); !fault.empty()) {
    return KernelPlan::reject(fault);
  }
  const bool has_grad = request.has_input(2);
  const std::int64_t grads = has_grad ? num_elements(request.input(2).shape) : 1;
  if (grads != 1 && !(problem.none && grads == problem.count)) {
    return KernelPlan::reject(str_cat("loss_grad ", operand_text(request.input(2)),
                                      " is neither a scalar nor shaped as the loss"));
  }
  const DType dtype = request.input(0).dtype;
  const DType grad_dtype = has_grad ? request.input(2).dtype : DType::Float32;
  const std::size_t num_inputs = request.spec.inputs.size();
  const bool per_label = grads == problem.count && problem.none;
  KernelPlan plan;
  const bool known = dispatch_float(dtype, [&]<class T>(T) {
    dispatch_float(grad_dtype, [&]<class G>(G) {
      plan.run = [=](std::byte* const* operands, std::byte*) {
        const T* probs = operand_in<T>(operands, 0);
        const IndexReader labels(operands[1], problem.labels);
        const G* loss_grad = has_grad ? operand_in<G>(operands, 2) : nullptr;
        T* dx = operand_out<T>(operands, num_inputs + 1);
        reduce_losses(problem, probs, labels, operand_out<T>(operands, num_inputs),
                      [](double p) { return -std::log(p + 1e-7); });
        const double scale = problem.scale(labels);
        NllProblem rows = problem;
        rows.none = per_label;
        parallel_for(rows.threads, rows.count, row_grain(rows.classes),
                     [&](std::int64_t begin, std::int64_t end) {
                       softmax_nll_rows(rows, probs, labels, loss_grad, dx, scale, begin, end);
                     });
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
