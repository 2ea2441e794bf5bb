#include "pando/backends/cpu/fused/plan.hpp"

#include <algorithm>
#include <limits>

#include "pando/backends/cpu/fused/chain_functions.hpp"
#include "pando/backends/cpu/fused/op_order.hpp"
#include "pando/backends/cpu/fused/uniform_division.hpp"
#include "pando/base/error.hpp"

namespace pando::cpu {
namespace {

constexpr int kNone = -1;

/// Where the block of a node lies; kNone: nowhere, it only passes through the vector registers.
using Homes = std::vector<int>;

/// One micro-op before slots are known.
struct Step {
  int node = kNone;
  int from_chain = kNone;      // operand that is the passed block
  bool loads_operand = false;  // a store whose value has to be loaded first
};

/// Whether equal elements stand at equal places, if both begin at the same one.
bool same_layout(const KernelSpec& spec, int input, int output) {
  const OperandDesc& a = spec.inputs[static_cast<std::size_t>(input)];
  const OperandDesc& b = spec.outputs[static_cast<std::size_t>(output)];
  for (std::size_t d = 0; d < a.shape.size(); ++d) {
    if (a.shape[d] != 1 && a.strides[d] != b.strides[d]) return false;
  }
  return dtype_bytes(a.dtype) == dtype_bytes(b.dtype);
}

/// Turns an order into micro-ops.
class Emitter {
 public:
  /// `uniform`: the prologue.
  Emitter(const FusedProgram& program, const KernelSpec& spec, FusedPlan& plan, Homes& homes,
          bool uniform)
      : program_(program), spec_(spec), plan_(plan), homes_(homes), uniform_(uniform) {}

  /// `kept`: nodes that need a home for good.
  std::vector<MicroOp> run(const std::vector<int>& order, const std::vector<bool>& kept) {
    kept_ = kept;
    last_use_.assign(program_.ops.size(), kNone);
    direct_output_.assign(program_.ops.size(), kNone);
    std::vector<int> remaining = fold_stores(order);
    form_steps(remaining);
    for (std::size_t i = 0; i < steps_.size(); ++i) emit(static_cast<int>(i));
    MicroOp end;
    end.code = chain_machine().end;
    ops_.push_back(end);
    find_hazards();
    return std::move(ops_);
  }

 private:
  const FusedOp& node(int id) const { return program_.ops[static_cast<std::size_t>(id)]; }
  int& home(int id) { return homes_[static_cast<std::size_t>(id)]; }

  /// A value that an output holds as it is goes there directly.
  std::vector<int> fold_stores(const std::vector<int>& order) {
    std::vector<bool> made_here(program_.ops.size());
    std::vector<int> remaining;
    for (int id : order) {
      const FusedOp& n = node(id);
      made_here[static_cast<std::size_t>(id)] = true;
      if (n.kind == FusedOp::Kind::StoreRaw) {
        const auto value = static_cast<std::size_t>(n.operands[0]);
        if (made_here[value] && direct_output_[value] == kNone) {
          direct_output_[value] = n.index;
          continue;
        }
      }
      remaining.push_back(id);
    }
    return remaining;
  }

  static bool takes_passed(const FusedOp& n, int position) {
    if (n.kind == FusedOp::Kind::StoreHalfPrecision) return position == 0;
    if (n.kind == FusedOp::Kind::StoreRaw) return n.lane_bytes == 4 && position == 0;
    if (n.kind != FusedOp::Kind::Chain || loads_half_precision(n.chain)) return false;
    const bool simple = n.chain < ChainOp::AddThenAdd;
    return position == 0 || (simple && position < chain_facts(n.chain).arity);
  }

  void form_steps(const std::vector<int>& order) {
    int passed = kNone;
    for (int id : order) {
      const FusedOp& n = node(id);
      Step step;
      step.node = id;
      for (int k = 0; k < 3 && step.from_chain == kNone; ++k) {
        const int operand = n.operands[static_cast<std::size_t>(k)];
        if (operand >= 0 && operand == passed && takes_passed(n, k)) step.from_chain = k;
      }
      for (int k = 0; k < 3; ++k) {
        const int operand = n.operands[static_cast<std::size_t>(k)];
        if (operand < 0 || k == step.from_chain) continue;
        last_use_[static_cast<std::size_t>(operand)] = static_cast<int>(steps_.size());
      }
      const bool chain_store = n.kind == FusedOp::Kind::StoreHalfPrecision ||
                               (n.kind == FusedOp::Kind::StoreRaw && n.lane_bytes == 4);
      step.loads_operand = chain_store && step.from_chain == kNone;
      if (n.kind == FusedOp::Kind::Chain) {
        passed = id;
      } else if (chain_store) {
        passed = n.operands[0];
      } else {
        passed = kNone;
      }
      steps_.push_back(step);
    }
  }

  void allocate_home(int id) {
    const FusedOp& n = node(id);
    if (n.is_store()) return;
    const auto index = static_cast<std::size_t>(id);
    if (direct_output_[index] != kNone) {
      home(id) = static_cast<int>(plan_.first_output()) + direct_output_[index];
    } else if (n.kind == FusedOp::Kind::Tile || last_use_[index] != kNone || kept_[index]) {
      home(id) = new_tile();
    }
  }

  int new_tile() {
    if (!free_tiles_.empty()) {
      const int tile = free_tiles_.back();
      free_tiles_.pop_back();
      return tile;
    }
    const std::size_t slot = plan_.num_slots();
    internal_check(slot < std::numeric_limits<std::uint16_t>::max(),
                   "a pointwise program needs too many blocks");
    ++plan_.num_tiles;
    return static_cast<int>(slot);
  }

  /// Blocks whose last reader was step `position` may be written again.
  void release(int position) {
    const FusedOp& n = node(steps_[static_cast<std::size_t>(position)].node);
    for (std::size_t k = 0; k < n.operands.size(); ++k) {
      const int operand = n.operands[k];
      if (operand < 0 || std::find(n.operands.begin(), n.operands.begin() + k, operand) !=
                             n.operands.begin() + k) {
        continue;
      }
      const auto index = static_cast<std::size_t>(operand);
      const bool temporary = !node(operand).is_block() && !kept_[index] &&
                             node(operand).uniform == uniform_ && direct_output_[index] == kNone;
      if (temporary && last_use_[index] == position) free_tiles_.push_back(home(operand));
    }
  }

  std::uint16_t slot(int id) {
    const FusedOp& n = node(id);
    std::size_t result = 0;
    switch (n.kind) {
      case FusedOp::Kind::Input:
        result = static_cast<std::size_t>(n.index);
        break;
      case FusedOp::Kind::Generated:
        result = plan_.first_generated() + static_cast<std::size_t>(n.index);
        break;
      case FusedOp::Kind::Constant:
        result = plan_.first_constant() + static_cast<std::size_t>(n.index);
        break;
      default:
        internal_check(home(id) != kNone, "a block is read that was not kept");
        result = static_cast<std::size_t>(home(id));
    }
    return static_cast<std::uint16_t>(result);
  }

  void emit(int position) {
    const Step& step = steps_[static_cast<std::size_t>(position)];
    const FusedOp& n = node(step.node);
    allocate_home(step.node);
    if (step.loads_operand && n.kind == FusedOp::Kind::StoreHalfPrecision) {
      MicroOp load;
      load.code = chain_machine().function(ChainOp::Move, kNone, false);
      load.in[0] = slot(n.operands[0]);
      push(load, position, "Move");
    }
    MicroOp op;
    for (int k = 0; k < 3; ++k) {
      const int operand = n.operands[static_cast<std::size_t>(k)];
      if (operand >= 0 && k != step.from_chain &&
          !(step.loads_operand && stores_half_precision(n))) {
        op.in[k] = slot(operand);
      }
    }
    finish(op, step, n, position);
    release(position);
  }

  static bool stores_half_precision(const FusedOp& n) {
    return n.kind == FusedOp::Kind::StoreHalfPrecision;
  }

  void finish(MicroOp& op, const Step& step, const FusedOp& n, int position) {
    const ChainMachine& machine = chain_machine();
    const auto output =
        static_cast<std::uint16_t>(plan_.first_output() + static_cast<std::size_t>(n.index));
    if (n.kind == FusedOp::Kind::Chain) {
      const bool keep = home(step.node) != kNone;
      op.code = machine.function(n.chain, step.from_chain, keep);
      if (keep) op.out = static_cast<std::uint16_t>(home(step.node));
      push(op, position, chain_facts(n.chain).name, step.from_chain, keep);
    } else if (n.kind == FusedOp::Kind::StoreHalfPrecision) {
      op.out = output;
      if (rounds_just_before(step, position)) {
        op.code = machine.store_half_precision(n.format, true);
        ops_.pop_back();
        op_steps_.pop_back();
        drop_line();
        push(op, position, str_cat("RoundStore.", n.format), 0, true);
      } else {
        op.code = machine.store_half_precision(n.format, false);
        push(op, position, str_cat("Store.", n.format), 0, true);
      }
    } else if (n.kind == FusedOp::Kind::StoreRaw && n.lane_bytes == 4) {
      op.out = output;
      op.code = machine.function(ChainOp::Move, step.from_chain, true);
      push(op, position, "Move", step.from_chain, true);
    } else {
      op.out = n.is_store() ? output : static_cast<std::uint16_t>(home(step.node));
      op.code = machine.run_tile;
      op.tile = n.tile;
      op.stream = n.index;
      op.is_uniform = uniform_;
      push(op, position, scalar_op_name(n.op), kNone, true);
    }
  }

  /// The store takes the block that the op before rounded, and only passed on.
  bool rounds_just_before(const Step& store, int position) {
    const ChainOp rounding =
        node(store.node).format == DType::Float16 ? ChainOp::RoundHalf : ChainOp::RoundBFloat16;
    if (store.from_chain != 0 || position == 0) return false;
    const Step& before = steps_[static_cast<std::size_t>(position) - 1];
    const FusedOp& n = node(before.node);
    return n.kind == FusedOp::Kind::Chain && n.chain == rounding && before.from_chain == 0 &&
           home(before.node) == kNone;
  }

  void push(const MicroOp& op, int position, std::string_view name, int from_chain = kNone,
            bool keep = false) {
    ops_.push_back(op);
    op_steps_.push_back(position);
    line_starts_.push_back(plan_.listing.size());
    plan_.listing += "  ";
    if (keep) plan_.listing += str_cat("s", op.out, " = ");
    plan_.listing += name;
    const FusedOp& n = node(steps_[static_cast<std::size_t>(position)].node);
    for (int k = 0; k < 3; ++k) {
      if (n.operands[static_cast<std::size_t>(k)] < 0) continue;
      plan_.listing += k == from_chain ? std::string(" .") : str_cat(" s", op.in[k]);
    }
    plan_.listing += "\n";
  }
  void drop_line() {
    plan_.listing.resize(line_starts_.back());
    line_starts_.pop_back();
  }

  void find_hazards() {
    for (int output = 0; output < static_cast<int>(plan_.num_outputs); ++output) {
      const auto slot_of_output =
          static_cast<std::uint16_t>(plan_.first_output() + static_cast<std::size_t>(output));
      const auto written = std::find_if(ops_.begin(), ops_.end(), [&](const MicroOp& op) {
        return op.code != chain_machine().end && op.out == slot_of_output;
      });
      for (int input = 0; input < static_cast<int>(plan_.num_inputs); ++input) {
        if (same_layout(spec_, input, output) && is_read_after(written, input)) {
          plan_.hazards.emplace_back(input, output);
        }
      }
    }
  }
  bool is_read_after(std::vector<MicroOp>::const_iterator written, int input) const {
    if (written == ops_.end()) return false;
    const auto begin = written + 1;
    for (auto op = begin; op != ops_.end(); ++op) {
      const auto position = static_cast<std::size_t>(op - ops_.begin());
      if (position >= op_steps_.size()) return false;
      const FusedOp& n = node(steps_[static_cast<std::size_t>(op_steps_[position])].node);
      for (int operand : n.operands) {
        if (operand >= 0 && node(operand).kind == FusedOp::Kind::Input &&
            node(operand).index == input) {
          return true;
        }
      }
    }
    return false;
  }

  const FusedProgram& program_;
  const KernelSpec& spec_;
  FusedPlan& plan_;
  Homes& homes_;
  bool uniform_;
  std::vector<int> free_tiles_;
  std::vector<bool> kept_;
  std::vector<int> last_use_;       // step that reads the node's block, kNone: none does
  std::vector<int> direct_output_;  // output that is the node's home
  std::vector<Step> steps_;
  std::vector<MicroOp> ops_;
  std::vector<int> op_steps_;  // step of each op
  std::vector<std::size_t> line_starts_;
};

class Planner {
 public:
  Planner(const KernelSpec& spec, bool with_chain) : spec_(spec), program_(build_program(spec)) {
    if (with_chain && is_chain(program_)) {
      prepare_uniform_divisions(program_);
      plan_.chain.program = program_;
    }
    combine_ops(program_);
    plan_.num_inputs = spec.num_loaded_inputs();
    plan_.num_outputs = spec.outputs.size();
    plan_.generated = program_.generated;
    plan_.constants = program_.constants;
    homes_.assign(program_.ops.size(), kNone);
  }

  FusedPlan run() {
    find_kept();
    plan_.prologue = emit(prologue_order(program_, kept_), true, "once");
    for (std::size_t i = 0; i < plan_.generated.size(); ++i) {
      if (!plan_.generated[i].is_philox) continue;
      plan_.generated[i].key0 = uniform_slot(program_.keys[i][0]);
      plan_.generated[i].key1 = uniform_slot(program_.keys[i][1]);
    }
    plan_.body = emit(program_.body, false, "per block");
    for (const MicroOp& op : plan_.body) {
      ++(op.tile != nullptr ? plan_.num_tile_ops : plan_.num_chain_ops);
    }
    --plan_.num_chain_ops;  // the end
    if (!plan_.chain.program.ops.empty()) finish_chain();
    return std::move(plan_);
  }

 private:
  void finish_chain() {
    ChainBody& chain = plan_.chain;
    for (std::size_t i = 0; i < chain.program.ops.size(); ++i) {
      chain.slots.push_back(slot_of(static_cast<int>(i)));
    }
    write_out_functions(chain.program);
    chain.slots.resize(chain.program.ops.size(), kNone);
    for (const UniformDivision& division : chain.program.uniform_divisions) {
      const auto slot = static_cast<std::uint16_t>(chain.slot(division.magnitude));
      const bool known =
          std::find(plan_.divisors.begin(), plan_.divisors.end(), slot) != plan_.divisors.end();
      if (!known) plan_.divisors.push_back(slot);
    }
    for (int output = 0; output < static_cast<int>(plan_.num_outputs); ++output) {
      for (int input = 0; input < static_cast<int>(plan_.num_inputs); ++input) {
        const std::pair<int, int> hazard{input, output};
        const bool known =
            std::find(plan_.hazards.begin(), plan_.hazards.end(), hazard) != plan_.hazards.end();
        if (!known && same_layout(spec_, input, output) && is_read_after_store(input, output)) {
          plan_.hazards.push_back(hazard);
        }
      }
    }
  }

  /// Whether the chain reads a block of the input after it has written that of the output.
  bool is_read_after_store(int input, int output) const {
    const FusedProgram& program = plan_.chain.program;
    bool stored = false;
    for (int id : program.body) {
      const FusedOp& op = program.op(id);
      const bool reads = std::any_of(op.operands.begin(), op.operands.end(), [&](int operand) {
        return operand >= 0 && program.op(operand).kind == FusedOp::Kind::Input &&
               program.op(operand).index == input;
      });
      if (reads && stored) return true;
      stored = stored || (op.is_store() && op.index == output);
    }
    return false;
  }

  int slot_of(int id) const {
    const FusedOp& op = plan_.chain.program.op(id);
    if (op.is_store()) return static_cast<int>(plan_.first_output()) + op.index;
    if (op.kind == FusedOp::Kind::Generated) {
      return static_cast<int>(plan_.first_generated()) + op.index;
    }
    return op.is_block() || op.uniform ? static_cast<int>(uniform_slot(id)) : kNone;
  }

  /// Uniform nodes that the body, a store or a generator reads.
  void find_kept() {
    kept_.assign(program_.ops.size(), false);
    const auto keep = [&](int id) {
      const FusedOp& n = program_.ops[static_cast<std::size_t>(id)];
      if (n.uniform && !n.is_block()) kept_[static_cast<std::size_t>(id)] = true;
    };
    for (const FusedOp& n : program_.ops) {
      const bool in_body = n.is_store() || (n.uses > 0 && !n.uniform);
      for (int operand : n.operands) {
        if (in_body && operand >= 0) keep(operand);
      }
      if (n.kind != FusedOp::Kind::Generated || n.uses == 0) continue;
      for (int key : program_.keys[static_cast<std::size_t>(n.index)]) {
        if (key >= 0) keep(key);
      }
    }
    for (const UniformDivision& division : program_.uniform_divisions) {
      for (int value :
           {division.magnitude, division.reciprocal, division.scale, division.negative}) {
        if (value >= 0) keep(value);
      }
    }
  }

  std::vector<MicroOp> emit(const std::vector<int>& order, bool uniform, const char* title) {
    plan_.listing += str_cat(title, ":\n");
    return Emitter(program_, spec_, plan_, homes_, uniform).run(order, kept_);
  }

  std::uint16_t uniform_slot(int id) const {
    const FusedOp& n = program_.ops[static_cast<std::size_t>(id)];
    if (n.kind == FusedOp::Kind::Input) return static_cast<std::uint16_t>(n.index);
    if (n.kind == FusedOp::Kind::Constant) {
      return static_cast<std::uint16_t>(plan_.first_constant() + static_cast<std::size_t>(n.index));
    }
    return static_cast<std::uint16_t>(homes_[static_cast<std::size_t>(id)]);
  }

  const KernelSpec& spec_;
  FusedProgram program_;
  FusedPlan plan_;
  Homes homes_;
  std::vector<bool> kept_;
};

}  // namespace

FusedPlan plan_fused(const KernelSpec& spec, bool with_chain) {
  return Planner(spec, with_chain).run();
}

}  // namespace pando::cpu
