// CtcLoss and its gradient, one thread a sample (Graves et al., "Connectionist Temporal
// Classification", 2006), in logarithms and double precision.
#include <algorithm>
#include <cmath>

#include "pando/backends/cpu/kernel_table.hpp"
#include "pando/backends/cpu/kernels/ctc_beam_search.hpp"
#include "pando/backends/cpu/kernels/element.hpp"
#include "pando/backends/cpu/kernels/float_rows.hpp"
#include "pando/backends/cpu/kernels/index.hpp"
#include "pando/backends/cpu/kernels/log_sum.hpp"
#include "pando/backends/cpu/kernels/through_float32.hpp"
#include "pando/base/error.hpp"

namespace pando::cpu {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

struct CtcProblem {
  std::int64_t steps = 0, batch = 0, classes = 0, labels = 0, blank = 0;
  bool zero_infinity = false;
  DType target_dtype{}, input_length_dtype{}, target_length_dtype{};
  int threads = 1;

  /// Labels with blanks before, between and after them.
  std::int64_t states() const { return 2 * labels + 1; }
};

/// One sample: what an alignment may pass through.
template <class T>
struct CtcSample {
  const CtcProblem& p;
  const T* log_probs;  // of the sample at step 0
  IndexReader targets;
  std::int64_t first_target, steps, labels;

  /// `operands` begin with the log probabilities.
  CtcSample(const CtcProblem& problem, std::byte* const* operands, std::int64_t b)
      : p(problem),
        log_probs(operand_in<T>(operands, 0) + b * problem.classes),
        targets(operands[1], problem.target_dtype),
        first_target(b * problem.labels),
        steps(IndexReader(operands[2], problem.input_length_dtype)[b]),
        labels(IndexReader(operands[3], problem.target_length_dtype)[b]) {}

  bool is_valid() const {
    if (steps < 0 || steps > p.steps || labels < 0 || labels > p.labels) return false;
    for (std::int64_t i = 0; i < labels; ++i) {
      if (targets[first_target + i] < 0 || targets[first_target + i] >= p.classes) return false;
    }
    return true;
  }
  std::int64_t states() const { return 2 * labels + 1; }
  std::int64_t label(std::int64_t state) const {
    return state % 2 == 0 ? p.blank : targets[first_target + state / 2];
  }
  /// Whether an alignment may go from the state before the last one to this one at once.
  bool may_skip(std::int64_t state) const {
    return state >= 2 && state % 2 == 1 && label(state) != label(state - 2);
  }
  double log_prob(std::int64_t step, std::int64_t state) const {
    return static_cast<double>(log_probs[step * p.batch * p.classes + label(state)]);
  }

  /// alpha[step][state]: ln of the probability of the steps so far that end in the state.
  void run_forward(double* alpha) const {
    const std::int64_t width = p.states();
    for (std::int64_t t = 0; t < steps; ++t) {
      double* row = alpha + t * width;
      const double* before = row - width;
      for (std::int64_t s = 0; s < states(); ++s) {
        double sum = t == 0 ? (s < 2 ? 0.0 : kLogOfZero) : before[s];
        if (t > 0 && s > 0) sum = log_sum(sum, before[s - 1]);
        if (t > 0 && may_skip(s)) sum = log_sum(sum, before[s - 2]);
        row[s] = sum + log_prob(t, s);
      }
    }
  }

  /// Of all steps, from the last row of alpha.
  double loss(const double* alpha) const {
    if (steps == 0) return labels == 0 ? 0.0 : kInfinity;
    const double* row = alpha + (steps - 1) * p.states();
    const double last = row[states() - 1];
    return -(labels == 0 ? last : log_sum(last, row[states() - 2]));
  }

  /// The steps after `t` that begin in state s, from those after t + 1 with their step.
  double backward(const double* next, std::int64_t s) const {
    double sum = next[s];
    if (s + 1 < states()) sum = log_sum(sum, next[s + 1]);
    if (s + 2 < states() && may_skip(s + 2)) sum = log_sum(sum, next[s + 2]);
    return sum;
  }

  /// Subtracts g times the probability of each class at each step. `beta`: two rows.
  void add_gradient(const double* alpha, double loss, double g, double* beta, T* out) const {
    double* next = beta;
    double* now = beta + p.states();
    for (std::int64_t t = steps; t-- > 0;) {
      T* row = out + t * p.batch * p.classes;
      for (std::int64_t s = 0; s < states(); ++s) {
        const bool is_end = s + 2 >= states();
        const double rest = t == steps - 1 ? (is_end ? 0.0 : kLogOfZero) : backward(next, s);
        const double posterior = std::exp(alpha[t * p.states() + s] + rest + loss);
        T& element = row[label(s)];
        element = static_cast<T>(static_cast<double>(element) - g * posterior);
        now[s] = rest + log_prob(t, s);
      }
      std::swap(next, now);
    }
  }
};

std::string parse_ctc(const KernelRequest& request, std::size_t first, CtcProblem& p) {
  const Shape& shape = request.input(first).shape;
  const Shape& targets = request.input(first + 1).shape;
  if (shape.size() != 3 || targets.size() != 2) return "wanted log probabilities and targets";
  p.steps = shape[0];
  p.batch = shape[1];
  p.classes = shape[2];
  p.labels = targets[1];
  p.blank = request.attributes().integer("blank");
  p.zero_infinity = request.attributes().flag("zero_infinity");
  p.target_dtype = request.input(first + 1).dtype;
  p.input_length_dtype = request.input(first + 2).dtype;
  p.target_length_dtype = request.input(first + 3).dtype;
  p.threads = request.num_threads;
  return "";
}

KernelPlan make_ctc_loss(const KernelRequest& request) {
  CtcProblem p;
  if (std::string fault = parse_ctc(request, 0, p); !fault.empty()) {
    return KernelPlan::reject(fault);
  }
  const std::int64_t slot = p.steps * p.states();
  KernelPlan plan;
  plan.scratch_bytes = static_cast<std::size_t>(p.threads * slot) * sizeof(double);
  const auto use = [&]<class T>(T) {
    plan.run = [p, slot](std::byte* const* operands, std::byte* scratch) {
      T* out = operand_out<T>(operands, 4);
      parallel_slots(p.threads, p.batch, row_grain(slot, 1 << 10),
                     [&](std::int64_t s, std::int64_t begin, std::int64_t end) {
                       double* alpha = reinterpret_cast<double*>(scratch) + s * slot;
                       for (std::int64_t b = begin; b < end; ++b) {
                         const CtcSample<T> sample(p, operands, b);
                         double loss = kNaN;
                         if (sample.is_valid()) {
                           sample.run_forward(alpha);
                           loss = sample.loss(alpha);
                         }
                         out[b] = static_cast<T>(loss == kInfinity && p.zero_infinity ? 0.0 : loss);
                       }
                     });
    };
  };
  const DType dtype = request.input(0).dtype;
  return dispatch_single_or_double(dtype, use) ? plan
                                               : KernelPlan::reject(unsupported_dtype(dtype));
}

template <class T>
void ctc_gradient(const CtcProblem& p, std::byte* const* operands, std::int64_t b, double* alpha) {
  T* out = operand_out<T>(operands, 5) + b * p.classes;
  const std::int64_t step = p.batch * p.classes;
  for (std::int64_t t = 0; t < p.steps; ++t) std::fill_n(out + t * step, p.classes, T{});
  const CtcSample<T> sample(p, operands + 1, b);
  const bool is_valid = sample.is_valid();
  double loss = kNaN;
  if (is_valid) {
    sample.run_forward(alpha);
    loss = sample.loss(alpha);
  }
  if (loss == kInfinity && p.zero_infinity) return;
  if (!std::isfinite(loss)) {
    const std::int64_t steps = is_valid ? sample.steps : p.steps;
    for (std::int64_t t = 0; t < steps; ++t) {
      std::fill_n(out + t * step, p.classes, static_cast<T>(kNaN));
    }
    return;
  }
  const auto g = static_cast<double>(operand_in<T>(operands, 0)[b]);
  sample.add_gradient(alpha, loss, g, alpha + p.steps * p.states(), out);
}

KernelPlan make_ctc_loss_grad(const KernelRequest& request) {
  CtcProblem p;
  if (std::string fault = parse_ctc(request, 1, p); !fault.empty()) {
    return KernelPlan::reject(fault);
  }
  const std::int64_t slot = (p.steps + 2) * p.states();
  KernelPlan plan;
  plan.scratch_bytes = static_cast<std::size_t>(p.threads * slot) * sizeof(double);
  const auto use = [&]<class T>(T) {
    plan.run = [p, slot](std::byte* const* operands, std::byte* scratch) {
      parallel_slots(p.threads, p.batch, row_grain(slot, 1 << 10),
                     [&](std::int64_t s, std::int64_t begin, std::int64_t end) {
                       double* alpha = reinterpret_cast<double*>(scratch) + s * slot;
                       for (std::int64_t b = begin; b < end; ++b) {
                         ctc_gradient<T>(p, operands, b, alpha);
                       }
                     });
    };
  };
  const DType dtype = request.input(1).dtype;
  return dispatch_single_or_double(dtype, use) ? plan
                                               : KernelPlan::reject(unsupported_dtype(dtype));
}

}  // namespace

void register_ctc_kernels(KernelTable& table) {
  table["CtcLoss"] = {{{"log alpha", make_ctc_loss}, {"half", through_float32<make_ctc_loss>}}};
  table["CtcLossGrad"] = {
      {{"log alpha and beta", make_ctc_loss_grad}, {"half", through_float32<make_ctc_loss_grad>}}};
  table["CtcBeamSearch"] = {
      {{"prefix tree", make_ctc_beam_search}, {"half", through_float32<make_ctc_beam_search>}}};
}

}  // namespace pando::cpu
