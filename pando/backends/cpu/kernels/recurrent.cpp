// RecurrentSequence: a product for each step, then the cells of its rows.
#include <algorithm>
#include <optional>

#include "pando/backends/cpu/kernels/element.hpp"
#include "pando/backends/cpu/kernels/recurrent_product.hpp"
#include "pando/backends/cpu/kernels/recurrent_sequence.hpp"
#include "pando/backends/cpu/kernels/through_float32.hpp"
#include "pando/base/error.hpp"

namespace pando::cpu {
namespace {

/// The shape of weights that are packed.
constexpr const char* kPackedWeights = "packed_weights";

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
  if (!RecurrentProduct::is_worth_it(p.steps, p.batch, p.hidden)) {
    return KernelPlan::reject("few rows or steps");
  }
  run.product = RecurrentProduct::of_states(p.batch, p.hidden, p.gates, p.threads);
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
  const RecurrentProduct product =
      RecurrentProduct::of_states(at.p.batch, at.p.hidden, at.p.gates, at.p.threads);
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
  prepared.restorer.emplace();
  prepared.restorer->kind = "RecurrentUnpackedWeights";
  prepared.restorer->inputs = {made};
  prepared.restorer->outputs = {spec.inputs[1]};
  return prepared;
}

/// `shape`: of the weights.
RecurrentProduct product_with(const Shape& shape, int threads) {
  return RecurrentProduct::of_states(1, shape[1], shape[0] / shape[1], threads);
}

KernelPlan make_packed_weights(const KernelRequest& request) {
  KernelPlan plan;
  plan.run = [product = product_with(request.input(0).shape, request.num_threads)](
                 std::byte* const* operands, std::byte*) {
    product.pack(operand_in<float>(operands, 0), operand_out<float>(operands, 1));
  };
  return plan;
}

KernelPlan make_unpacked_weights(const KernelRequest& request) {
  KernelPlan plan;
  plan.run = [product = product_with(request.output(0).shape, request.num_threads)](
                 std::byte* const* operands, std::byte*) {
    product.unpack(operand_in<float>(operands, 0), operand_out<float>(operands, 1));
  };
  return plan;
}

KernelPlan make_sequence(const KernelRequest& request) {
  RunSequence run;
  std::string fault = parse_sequence_operands(request, run.at);
  if (!fault.empty()) return KernelPlan::reject(fault);
  if (run.at.has_packed_weights) return KernelPlan::reject("packed weights");
  const Sequence& p = run.at.p;
  run.product = plan_step_product(p, p.hidden, p.gates * p.hidden, 1, p.hidden, run.at.bias >= 0);
  if (!run.product.rejection.empty()) return std::move(run.product);
  run.run_at = bytes_of_floats(p.parts_size());
  run.product_at = run.run_at + run.at.run_bytes();
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
      // What an LSTM saves of a step are the gates that it made of the parts there.
      .in_place_inputs = {0},
      .prepared = packed_weights,
      .in_place_output = 1};
  table["RecurrentPackedWeights"] = {{{"packed", make_packed_weights}}};
  table["RecurrentUnpackedWeights"] = {{{"packed", make_unpacked_weights}}};
}

}  // namespace pando::cpu
