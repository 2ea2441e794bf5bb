// RecurrentSequence and its gradient: a product for each step, then the cells of its rows.
#include <algorithm>
#include <array>
#include <optional>

#include "pando/backends/cpu/kernel_table.hpp"
#include "pando/backends/cpu/kernels/element.hpp"
#include "pando/backends/cpu/kernels/float_rows.hpp"
#include "pando/backends/cpu/kernels/matmul.hpp"
#include "pando/backends/cpu/kernels/recurrent_cells.hpp"
#include "pando/backends/cpu/kernels/recurrent_product.hpp"
#include "pando/backends/cpu/kernels/through_float32.hpp"
#include "pando/base/error.hpp"

namespace pando::cpu {
namespace {

/// The shape of weights that are packed.
constexpr const char* kPackedWeights = "packed_weights";
/// Sigmoids and tangents cost about as much as so many copies.
constexpr std::int64_t kElementsPerTask = 1 << 11;

struct Sequence {
  Cell cell = Cell::Lstm;
  std::int64_t steps = 0, batch = 0, hidden = 0, gates = 0;
  bool reverse = false;
  int threads = 1;

  std::int64_t state_size() const { return batch * hidden; }
  std::int64_t parts_size() const { return gates * batch * hidden; }
  /// Where step number `s` stands in time, in the direction of the layer.
  std::int64_t time(std::int64_t s) const { return reverse ? steps - 1 - s : s; }
  /// The state that step number `s` begins with, of a tensor of states and the first one.
  const float* before(const float* states, const float* first, std::int64_t s) const {
    return s == 0 ? first : states + time(s - 1) * state_size();
  }
  /// Calls body(row) for all rows of the batch.
  template <class Body>
  void for_rows(const Body& body) const {
    parallel_for(threads, batch, row_grain(gates * hidden, kElementsPerTask),
                 [&](std::int64_t begin, std::int64_t end) {
                   for (std::int64_t row = begin; row < end; ++row) body(row);
                 });
  }
};

std::optional<Cell> cell_of(const std::string& name) {
  if (name == "lstm") return Cell::Lstm;
  if (name == "gru") return Cell::Gru;
  if (name == "tanh") return Cell::Tanh;
  if (name == "relu") return Cell::Relu;
  return std::nullopt;
}

/// Reads the sizes from the states and the weights, or returns why they do not fit.
std::string parse_sequence(const KernelRequest& request, const OperandDesc& states,
                           const OperandDesc& weights, Sequence& p) {
  const auto cell = cell_of(request.attributes().text("cell"));
  if (!cell) return "unknown cell";
  if (states.dtype != DType::Float32) return "only float32";
  if (states.shape.size() != 3 || weights.shape.size() != 2 ||
      weights.shape[1] != states.shape[2]) {
    return str_cat("the weights ", operand_text(weights), " do not fit ", operand_text(states));
  }
  p.cell = *cell;
  p.steps = states.shape[0];
  p.batch = states.shape[1];
  p.hidden = states.shape[2];
  p.gates = *cell == Cell::Lstm ? 4 : *cell == Cell::Gru ? 3 : 1;
  p.reverse = request.attributes().flag_or("reverse", false);
  p.threads = request.num_threads;
  return "";
}

/// A product (batch, k) x (k, n) whose right side has these strides.
KernelPlan plan_product(const Sequence& p, std::int64_t k, std::int64_t n, std::int64_t rhs_row,
                        std::int64_t rhs_column, bool has_bias) {
  MatMulProblem problem;
  problem.m = p.batch;
  problem.n = n;
  problem.k = k;
  problem.lhs_row = k;
  problem.lhs_column = 1;
  problem.rhs_row = rhs_row;
  problem.rhs_column = rhs_column;
  problem.out_row = n;
  problem.out_product = p.batch * n;
  problem.has_bias = has_bias;
  return plan_float32_matmul(problem, p.threads);
}

std::byte* bytes_of(const float* at) {
  return reinterpret_cast<std::byte*>(const_cast<float*>(at));
}

std::size_t bytes_of_floats(std::int64_t count) {
  return scratch_aligned(static_cast<std::size_t>(count) * sizeof(float));
}

/// The operands of RecurrentSequence; -1: not connected, or no such output.
struct SequenceOperands {
  Sequence p;
  bool has_packed_weights = false;  // by make_packed_weights
  int bias = -1, first = -1, first_cell = -1, states = 0, saved = -1, cells = -1;

  /// States of 0, and the cell states of one step where nothing wants those of all.
  std::size_t run_bytes() const { return bytes_of_floats(2 * p.state_size()); }
};

/// What one run works on.
class SequenceRun {
 public:
  /// `scratch`: run_bytes().
  SequenceRun(const SequenceOperands& at, std::byte* const* operands, std::byte* scratch)
      : at_(at),
        p_(at.p),
        operands_(operands),
        zeros_(reinterpret_cast<float*>(scratch)),
        last_cells_(reinterpret_cast<float*>(scratch) + p_.state_size()) {
    std::fill_n(zeros_, p_.state_size(), 0.0f);
  }

  const float* bias() const { return at_.bias < 0 ? nullptr : operand(at_.bias); }
  const float* state_before(std::int64_t s) const {
    return p_.before(operand(at_.states), first(at_.first), s);
  }

  /// What the inputs add to the gates of step `s`.
  const float* parts(std::int64_t s) const { return operand(0) + p_.time(s) * p_.parts_size(); }

  /// Step `s` for some units of a row. `sums`: the product of the first unit, whose gates are
  /// `gate_step` apart.
  void step(std::int64_t s, std::int64_t row, std::int64_t unit, std::int64_t units,
            const float* sums, std::int64_t gate_step) const {
    const auto at = [&](int index, std::int64_t blocks) {
      const std::int64_t offset = (p_.time(s) * p_.batch + row) * blocks * p_.hidden + unit;
      return index < 0 ? nullptr : operand(index) + offset;
    };
    const std::int64_t offset = row * p_.hidden + unit;
    CellStep step{};
    step.count = units;
    step.hidden = p_.hidden;
    step.product_gate = gate_step;
    step.parts = at(0, p_.gates);
    step.product = sums;
    step.state = state_before(s) + offset;
    if (at_.cells >= 0) {
      step.cell = p_.before(operand(at_.cells), first(at_.first_cell), s) + offset;
      step.next_cell = at(at_.cells, 1);
    } else if (p_.cell == Cell::Lstm) {
      step.cell = (s == 0 ? first(at_.first_cell) : last_cells_) + offset;
      step.next_cell = last_cells_ + offset;
    }
    step.saved = at(at_.saved, 4);
    step.next_state = at(at_.states, 1);
    cell_step(p_.cell, step);
  }

 private:
  float* operand(int index) const {
    return operand_out<float>(operands_, static_cast<std::size_t>(index));
  }
  const float* first(int index) const { return index < 0 ? zeros_ : operand(index); }

  const SequenceOperands& at_;
  const Sequence& p_;
  std::byte* const* operands_;
  float* zeros_;
  float* last_cells_;
};

/// Steps whose products are matrix products like others.
struct RunSequence {
  SequenceOperands at;
  KernelPlan product;
  std::size_t run_at = 0, product_at = 0;

  void operator()(std::byte* const* operands, std::byte* scratch) const {
    const Sequence& p = at.p;
    auto* sums = reinterpret_cast<float*>(scratch);
    const SequenceRun run(at, operands, scratch + run_at);
    for (std::int64_t s = 0; s < p.steps; ++s) {
      std::byte* factors[4] = {bytes_of(run.state_before(s)), operands[1]};
      factors[2] = at.bias < 0 ? bytes_of(sums) : operands[2];
      factors[3] = bytes_of(sums);
      product.run(factors, scratch + product_at);
      p.for_rows([&](std::int64_t row) {
        run.step(s, row, 0, p.hidden, sums + row * p.gates * p.hidden, p.hidden);
      });
    }
  }
};

/// Steps whose products have packed weights: threads meet once a step.
struct RunPackedSequence {
  SequenceOperands at;
  RecurrentProduct product;
  std::size_t run_at = 0, threads_at = 0;

  void operator()(std::byte* const* operands, std::byte* scratch) const {
    const Sequence& p = at.p;
    const float* weights = operand_in<float>(operands, 1);
    auto* of_threads = reinterpret_cast<float*>(scratch + threads_at);
    if (!at.has_packed_weights) {
      auto* packed = reinterpret_cast<float*>(scratch);
      product.pack(weights, packed);
      weights = packed;
    }
    const SequenceRun run(at, operands, scratch + run_at);
    for (std::int64_t s = 0; s < p.steps; ++s) {
      const auto cells = [&](const UnitTile& tile, const float* sums) {
        for (std::int64_t i = 0; i < tile.rows; ++i, sums += product.row_step()) {
          run.step(s, tile.row + i, tile.unit, tile.units, sums, product.gate_step());
        }
      };
      const RecurrentProduct::Operands step{weights, run.state_before(s), run.bias(), run.parts(s)};
      parallel_for(p.threads, product.tiles(), product.grain(),
                   [&](std::int64_t begin, std::int64_t end) {
                     float* mine = of_threads + thread_index() * product.thread_floats();
                     product.for_tiles(step, mine, begin, end, cells);
                   });
    }
  }
};

std::string parse_sequence_operands(const KernelRequest& request, SequenceOperands& at) {
  Sequence& p = at.p;
  OperandDesc weights = request.input(1);
  at.has_packed_weights = request.attributes().has(kPackedWeights);
  if (at.has_packed_weights) weights.shape = request.attributes().ints(kPackedWeights);
  std::string fault = parse_sequence(request, request.output(0), weights, p);
  if (!fault.empty()) return fault;
  const auto num_inputs = static_cast<int>(request.spec.inputs.size());
  const auto index_of = [&](std::size_t i) {
    return request.has_input(i) ? static_cast<int>(i) : -1;
  };
  at.bias = index_of(2);
  at.first = index_of(3);
  at.first_cell = index_of(4);
  at.states = num_inputs;
  if (request.has_output(1)) at.saved = num_inputs + 1;
  if (request.has_output(2)) at.cells = num_inputs + 2;
  return "";
}

KernelPlan make_packed_sequence(const KernelRequest& request) {
  RunPackedSequence run;
  std::string fault = parse_sequence_operands(request, run.at);
  if (!fault.empty()) return KernelPlan::reject(fault);
  const Sequence& p = run.at.p;
  if (!RecurrentProduct::is_worth_it(p.steps, p.batch) || p.hidden == 0) {
    return KernelPlan::reject("few rows or steps");
  }
  run.product = RecurrentProduct(p.batch, p.hidden, p.gates, p.threads);
  run.run_at = run.at.has_packed_weights ? 0 : bytes_of_floats(run.product.weight_floats());
  run.threads_at = run.run_at + run.at.run_bytes();
  KernelPlan plan;
  plan.scratch_bytes = run.threads_at + bytes_of_floats(p.threads * run.product.thread_floats());
  plan.detail = run.at.has_packed_weights ? "weights packed before runs" : "weights packed once";
  plan.run = run;
  return plan;
}

/// The weights as make_packed_sequence multiplies by them.
std::optional<PreparedInput> packed_weights(const KernelRequest& request) {
  SequenceOperands at;
  if (!parse_sequence_operands(request, at).empty() || at.has_packed_weights) return std::nullopt;
  const KernelSpec& spec = request.spec;
  const RecurrentProduct product(at.p.batch, at.p.hidden, at.p.gates, at.p.threads);
  const OperandDesc made = OperandDesc::contiguous(DType::Float32, {product.weight_floats()});
  PreparedInput prepared{1, {}, spec};
  prepared.maker.kind = "RecurrentPackedWeights";
  prepared.maker.inputs = {spec.inputs[1]};
  prepared.maker.outputs = {made};
  prepared.user.inputs[1] = made;
  prepared.user.attributes.set(kPackedWeights, Ints(spec.inputs[1].shape));
  if (!make_packed_sequence({prepared.user, request.num_threads}).rejection.empty()) {
    return std::nullopt;
  }
  return prepared;
}

KernelPlan make_packed_weights(const KernelRequest& request) {
  const Shape& shape = request.input(0).shape;
  const RecurrentProduct product(1, shape[1], shape[0] / shape[1], request.num_threads);
  KernelPlan plan;
  plan.run = [product](std::byte* const* operands, std::byte*) {
    product.pack(operand_in<float>(operands, 0), operand_out<float>(operands, 1));
  };
  return plan;
}

KernelPlan make_sequence(const KernelRequest& request) {
  RunSequence run;
  std::string fault = parse_sequence_operands(request, run.at);
  if (!fault.empty()) return KernelPlan::reject(fault);
  if (run.at.has_packed_weights) return KernelPlan::reject("packed weights");
  const Sequence& p = run.at.p;
  run.product = plan_product(p, p.hidden, p.gates * p.hidden, 1, p.hidden, run.at.bias >= 0);
  if (!run.product.rejection.empty()) return std::move(run.product);
  run.run_at = bytes_of_floats(p.parts_size());
  run.product_at = run.run_at + run.at.run_bytes();
  KernelPlan plan;
  plan.scratch_bytes = run.product_at + run.product.scratch_bytes;
  plan.detail = run.product.detail;
  plan.run = std::move(run);
  return plan;
}

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

struct RunGradient {
  Sequence p;
  KernelPlan product;
  std::array<bool, kCount> has{};
  std::size_t product_at = 0;

  void operator()(std::byte* const* operands, std::byte* scratch) const {
    auto* zeros = reinterpret_cast<float*>(scratch);
    std::fill_n(zeros, p.state_size(), 0.0f);
    float* sums = zeros + p.state_size();
    float* carried = operand_out<float>(operands, kFirstGradient);
    // The other cells carry no cell state.
    float* carried_cell = p.cell == Cell::Lstm ? operand_out<float>(operands, kRest) : nullptr;
    std::fill_n(carried, p.state_size(), 0.0f);
    if (carried_cell != nullptr) std::fill_n(carried_cell, p.state_size(), 0.0f);
    for (std::int64_t s = p.steps; s-- > 0;) {
      run_cells(operands, s, zeros, carried, carried_cell);
      const std::size_t gradient = p.cell == Cell::Gru ? kRest : kParts;
      const float* rows = operand_in<float>(operands, gradient) + p.time(s) * p.parts_size();
      std::byte* factors[3] = {bytes_of(rows), operands[kWeights], bytes_of(sums)};
      product.run(factors, scratch + product_at);
      for (std::int64_t i = 0; i < p.state_size(); ++i) carried[i] += sums[i];
    }
  }

  void run_cells(std::byte* const* operands, std::int64_t s, const float* zeros, float* carried,
                 float* carried_cell) const {
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
      step.carried = carried + offset;
      step.carried_cell = carried_cell == nullptr ? nullptr : carried_cell + offset;
      step.parts = at(kParts, row, p.gates);
      step.product = p.cell == Cell::Gru ? at(kRest, row, p.gates) : nullptr;
      cell_gradient(p.cell, step);
    });
  }
};

KernelPlan make_sequence_gradient(const KernelRequest& request) {
  RunGradient run;
  Sequence& p = run.p;
  std::string fault = parse_sequence(request, request.input(kStates), request.input(kWeights), p);
  if (!fault.empty()) return KernelPlan::reject(fault);
  for (std::size_t i = 0; i < kParts; ++i) run.has[i] = request.has_input(i);
  run.has[kParts] = run.has[kFirstGradient] = true;
  run.has[kRest] = request.spec.outputs.size() > 2;
  run.product = plan_product(p, p.gates * p.hidden, p.hidden, p.hidden, 1, false);
  if (!run.product.rejection.empty()) return std::move(run.product);
  run.product_at = scratch_aligned(2 * static_cast<std::size_t>(p.state_size()) * sizeof(float));
  KernelPlan plan;
  plan.scratch_bytes = run.product_at + run.product.scratch_bytes;
  plan.detail = run.product.detail;
  plan.run = std::move(run);
  return plan;
}

}  // namespace

void register_recurrent_kernels(KernelTable& table) {
  table["RecurrentSequence"] = {
      .candidates = {{"packed", make_packed_sequence},
                     {"steps", make_sequence},
                     {"packed half", through_float32<make_packed_sequence>},
                     {"half", through_float32<make_sequence>}},
      .prepared = packed_weights};
  table["RecurrentPackedWeights"] = {{{"packed", make_packed_weights}}};
  table["RecurrentSequenceGrad"] = {
      {{"steps", make_sequence_gradient}, {"half", through_float32<make_sequence_gradient>}}};
}

}  // namespace pando::cpu
