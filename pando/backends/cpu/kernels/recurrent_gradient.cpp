// RecurrentSequenceGrad: from the last step to the first, the cells of its rows, then a product.
#include <algorithm>
#include <array>
#include <string>

#include "pando/backends/cpu/kernels/element.hpp"
#include "pando/backends/cpu/kernels/recurrent_product.hpp"
#include "pando/backends/cpu/kernels/recurrent_sequence.hpp"
#include "pando/backends/cpu/kernels/through_float32.hpp"

namespace pando::cpu {
namespace {

/// Operands of RecurrentSequenceGrad.
enum GradientOperand : std::uint8_t {
  kWeights,
  kStates,
  kG,
  kGCells,
  kSaved,
  kCells,
  kFirst,
  kFirstCell,
  kParts,
  kFirstGradient,
  kRest,
  kCount
};

/// What every way of running it needs: the cells of a step, and what goes from step to step.
struct GradientSteps {
  Sequence p;
  std::array<bool, kCount> has{};

  /// `zeros`: a state of 0, which is filled.
  void begin(std::byte* const* operands, float* zeros) const {
    std::fill_n(zeros, p.state_size(), 0.0f);
    std::fill_n(carried(operands), p.state_size(), 0.0f);
    if (float* cells = carried_cell(operands)) std::fill_n(cells, p.state_size(), 0.0f);
  }

  /// The gradient of the state before the step that comes next.
  static float* carried(std::byte* const* operands) {
    return operand_out<float>(operands, kFirstGradient);
  }

  /// The other cells carry no cell state.
  float* carried_cell(std::byte* const* operands) const {
    return p.cell == Cell::Lstm ? operand_out<float>(operands, kRest) : nullptr;
  }

  /// The gradients of the gates (batch, gates * hidden), which are multiplied by the weights.
  const float* gates(std::byte* const* operands, std::int64_t s) const {
    const std::size_t gradient = p.cell == Cell::Gru ? kRest : kParts;
    return operand_in<float>(operands, gradient) + p.time(s) * p.parts_size();
  }

  void run_cells(std::byte* const* operands, std::int64_t s, const float* zeros) const {
    const auto at = [&](std::size_t operand, std::int64_t row, std::int64_t blocks) {
      const std::int64_t offset = (p.time(s) * p.batch + row) * blocks * p.hidden;
      return has[operand] ? operand_out<float>(operands, operand) + offset : nullptr;
    };
    const auto before = [&](std::size_t states, std::size_t first) -> const float* {
      if (!has[states]) return nullptr;
      return p.before(operand_in<float>(operands, states),
                      has[first] ? operand_in<float>(operands, first) : zeros, s);
    };
    const float* states_before = before(kStates, kFirst);
    const float* cells_before = before(kCells, kFirstCell);
    float* carried_cells = carried_cell(operands);
    p.for_rows([&](std::int64_t row) {
      const std::int64_t offset = row * p.hidden;
      CellGradient step{};
      step.count = step.hidden = p.hidden;
      step.g = at(kG, row, 1);
      step.g_cell = at(kGCells, row, 1);
      step.saved = at(kSaved, row, 4);
      step.state = states_before + offset;
      step.next_state = at(kStates, row, 1);
      step.cell = cells_before == nullptr ? nullptr : cells_before + offset;
      step.next_cell = at(kCells, row, 1);
      step.carried = carried(operands) + offset;
      step.carried_cell = carried_cells == nullptr ? nullptr : carried_cells + offset;
      step.parts = at(kParts, row, p.gates);
      step.product = p.cell == Cell::Gru ? at(kRest, row, p.gates) : nullptr;
      cell_gradient(p.cell, step);
    });
  }
};

/// Steps whose products are matrix products like others.
struct RunGradient {
  GradientSteps steps;
  KernelPlan product;
  std::size_t product_at = 0;

  void operator()(std::byte* const* operands, std::byte* scratch) const {
    const Sequence& p = steps.p;
    auto* zeros = reinterpret_cast<float*>(scratch);
    float* sums = zeros + p.state_size();
    float* carried = GradientSteps::carried(operands);
    steps.begin(operands, zeros);
    for (std::int64_t s = p.steps; s-- > 0;) {
      steps.run_cells(operands, s, zeros);
      std::byte* factors[3] = {bytes_of(steps.gates(operands, s)), operands[kWeights],
                               bytes_of(sums)};
      product.run(factors, scratch + product_at);
      for (std::int64_t i = 0; i < p.state_size(); ++i) carried[i] += sums[i];
    }
  }
};

/// Steps whose products have weights that are packed once for all of them.
struct RunPackedGradient {
  GradientSteps steps;
  RecurrentProduct product;
  std::size_t weights_at = 0, threads_at = 0;

  void operator()(std::byte* const* operands, std::byte* scratch) const {
    const Sequence& p = steps.p;
    auto* zeros = reinterpret_cast<float*>(scratch);
    auto* weights = reinterpret_cast<float*>(scratch + weights_at);
    auto* of_threads = reinterpret_cast<float*>(scratch + threads_at);
    float* carried = GradientSteps::carried(operands);
    product.pack(operand_in<float>(operands, kWeights), weights);
    steps.begin(operands, zeros);
    for (std::int64_t s = p.steps; s-- > 0;) {
      steps.run_cells(operands, s, zeros);
      const RecurrentProduct::Operands step{weights, steps.gates(operands, s)};
      const auto carry = [&](const UnitTile& tile, const float* sums) {
        for (std::int64_t i = 0; i < tile.rows; ++i, sums += product.row_step()) {
          float* to = carried + (tile.row + i) * p.hidden + tile.unit;
          for (std::int64_t k = 0; k < tile.units; ++k) to[k] += sums[k];
        }
      };
      parallel_for(p.threads, product.tiles(), product.grain(),
                   [&](std::int64_t begin, std::int64_t end) {
                     float* mine = of_threads + thread_index() * product.thread_floats();
                     product.for_tiles(step, mine, begin, end, carry);
                   });
    }
  }
};

/// Reads what is connected, or returns why it does not fit.
std::string parse_gradient(const KernelRequest& request, GradientSteps& steps) {
  std::string fault =
      parse_sequence(request, request.input(kStates), request.input(kWeights), steps.p);
  if (!fault.empty()) return fault;
  for (std::size_t i = 0; i < kParts; ++i) steps.has[i] = request.has_input(i);
  steps.has[kParts] = steps.has[kFirstGradient] = true;
  steps.has[kRest] = request.spec.outputs.size() > 2;
  return "";
}

KernelPlan make_gradient(const KernelRequest& request) {
  RunGradient run;
  std::string fault = parse_gradient(request, run.steps);
  if (!fault.empty()) return KernelPlan::reject(fault);
  const Sequence& p = run.steps.p;
  run.product = plan_step_product(p, p.gates * p.hidden, p.hidden, p.hidden, 1, false);
  if (!run.product.rejection.empty()) return std::move(run.product);
  run.product_at = bytes_of_floats(2 * p.state_size());
  KernelPlan plan;
  plan.scratch_bytes = run.product_at + run.product.scratch_bytes;
  plan.detail = run.product.detail;
  plan.run = std::move(run);
  return plan;
}

KernelPlan make_packed_gradient(const KernelRequest& request) {
  RunPackedGradient run;
  std::string fault = parse_gradient(request, run.steps);
  if (!fault.empty()) return KernelPlan::reject(fault);
  const Sequence& p = run.steps.p;
  if (!RecurrentProduct::is_worth_it(p.steps, p.batch, p.hidden)) {
    return KernelPlan::reject("few rows or steps");
  }
  run.product = RecurrentProduct::of_gates(p.batch, p.hidden, p.gates, p.threads);
  run.weights_at = bytes_of_floats(p.state_size());
  run.threads_at = run.weights_at + bytes_of_floats(run.product.weight_floats());
  KernelPlan plan;
  plan.scratch_bytes = run.threads_at + bytes_of_floats(p.threads * run.product.thread_floats());
  plan.detail = "weights packed once";
  plan.run = run;
  return plan;
}

}  // namespace

void register_recurrent_gradient_kernels(KernelTable& table) {
  table["RecurrentSequenceGrad"] = {
      .candidates = {{"packed", make_packed_gradient},
                     {"steps", make_gradient},
                     {"packed half", through_float32<make_packed_gradient>},
                     {"half", through_float32<make_gradient>}},
      // An LSTM's gradients of a step's gates need what was saved of that step only.
      .in_place_inputs = {kSaved}};
}

}  // namespace pando::cpu
